package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const attentionLong = `List what somebody has to look at, each with what to do:

  broken     a record whose effect ended its own transaction
  parked     an effect outside of the database that may have happened
  twice      an effect outside of the database that happened more than once
  open       an effect outside of the database without an answer for more than an hour
  in_flight  an attempt at a younger one that takes longer than --older-than, or a
             session at a call for as long: it holds an advisory lock, or has written
             to tool_dedup
  sweep      records that have been due for more than an hour

Broken records are found among the latest 1,000 of the audit, attempts among the 2,000 oldest
effects without an answer. Of a call in flight the server knows the session and the effect's
last statement, and not the tool. The exit code is 1 when something is listed.`

// overdue is how long records may be due, and effects outside of the database be open.
const overdue = time.Hour

// searched is how many effects outside of the database are looked at for attempts.
const searched = 2000

// attention is what the command line says.
type attention struct {
	olderThan time.Duration
	limit     int
}

// AttentionCommand returns the command `dedup attention`.
func AttentionCommand() *cobra.Command {
	var q cli.Query
	var a attention
	cmd := &cobra.Command{
		Use:   "attention",
		Short: "List what somebody has to look at, and what to do",
		Long:  attentionLong,
		Example: `  dedup attention
  dedup attention --older-than 30s --json | jq -r .kind`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd, &q) },
	}
	q.AddFlags(cmd, "entry")
	cli.AddDuration(cmd, &a.olderThan, "older-than", time.Minute, "how long a call may be in flight")
	cmd.Flags().IntVar(&a.limit, "limit", 100, "how many of each kind are listed at most, 1 to 1000")
	return cmd
}

func (a *attention) run(cmd *cobra.Command, q *cli.Query) error {
	switch {
	case a.limit < 1 || a.limit > 1000:
		return exit.Usage("--limit must be 1 to 1000")
	case a.olderThan < 0:
		return exit.Usage("--older-than must not be negative")
	}
	listed := 0
	err := q.With(cmd, nil, func(ctx context.Context, db *cli.Database) error {
		for _, list := range []struct {
			of       string
			optional bool // its table may be missing
			read     func(context.Context, pgx.Tx, *cli.Database) ([]needed, error)
		}{
			{"broken records", true, a.broken},
			{"effects outside of the database", true, a.effects},
			{"effects that are open", true, a.open},
			{"calls in flight", false, a.inFlight},
			{"the sweep", false, a.due},
		} {
			var found []needed
			err := db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
				found, err = list.read(ctx, tx, db)
				return err
			})
			switch {
			case list.optional && inspect.IsMissing(err):
				cmd.PrintErrf("Not looked at: %s. A table is missing; `dedup migrate check` says which.\n", list.of)
				continue
			case err != nil:
				return fmt.Errorf("%s: %w", list.of, err)
			}
			if len(found) > a.limit {
				cmd.PrintErrf("There are more of %s than are listed.\n", list.of)
				found = found[:a.limit]
			}
			for _, n := range found {
				if err := q.Write(cmd.OutOrStdout(), &n); err != nil {
					return err
				}
			}
			listed += len(found)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case listed == 0:
		cmd.PrintErrln("Nothing needs attention.")
		return nil
	case listed == 1:
		return errors.New("one thing needs attention")
	default:
		return fmt.Errorf("%d things need attention", listed)
	}
}

// needed is something that somebody has to look at, as --json writes it. Its fields are
// stable: more may come, none goes.
type needed struct {
	Kind  string    `json:"kind"`
	Scope string    `json:"scope,omitempty"`
	Tool  string    `json:"tool,omitempty"`
	Key   string    `json:"key,omitempty"`
	PID   int32     `json:"pid,omitempty"`
	Since time.Time `json:"since"`
	Note  string    `json:"note,omitempty"`
	Do    string    `json:"do"`

	now time.Time
}

// WriteText implements [cli.Entry].
func (n *needed) WriteText(out io.Writer) error {
	title := n.Kind
	if n.Key != "" {
		title += ": " + cli.Name(n.Scope, n.Tool, n.Key)
	}
	return cli.WriteText(out, title,
		"since", moment(n.Since, n.now),
		"note", n.Note,
		"do", n.Do,
	)
}

func (a *attention) broken(ctx context.Context, tx pgx.Tx, db *cli.Database) (all []needed, err error) {
	found, err := inspect.Broken(ctx, tx, db.Schema, nil, a.limit+1)
	for _, b := range found {
		all = append(all, needed{
			Kind: "broken", Scope: b.Scope, Tool: b.Tool, Key: b.Key, Since: b.Since, Note: b.Note, now: b.Now,
			Do: "find out what it did, repair that, then: dedup reset " + cli.Name(b.Scope, b.Tool, b.Key) + " --reason …",
		})
	}
	return all, err
}

func (a *attention) effects(ctx context.Context, tx pgx.Tx, db *cli.Database) (all []needed, err error) {
	ops, err := db.Tools.ParkedTx(ctx, tx, external.Operation{}, a.limit+1)
	for _, op := range ops {
		resolve := resolveCommand(&op)
		n := ofOperation("parked", &op, op.ChangedAt, op.Note, "look in the provider's books for "+op.ProviderKey+", then: "+resolve+" …")
		if op.Verdict != "" {
			n.Note = "verdict: " + op.Decision()
			n.Do = "nothing, where a process that has the tool runs Tools.Recover; to replace the verdict: " + resolve + " --overrule …"
		}
		if op.Twice != "" {
			n.Kind, n.Note = "twice", op.Ref+" and "+op.Twice
			n.Do = "take " + op.Twice + " back at the provider, then: " + resolve + " --cleared …"
		}
		all = append(all, n)
	}
	return all, err
}

// open lists what has no answer: all that is overdue, and of the rest the attempts.
func (a *attention) open(ctx context.Context, tx pgx.Tx, db *cli.Database) (all []needed, err error) {
	const process = "see that a process with the tool runs Tools.Recover"
	ops, err := db.Tools.OpenTx(ctx, tx, external.Operation{}, min(a.olderThan, overdue), searched)
	for _, op := range ops {
		since := cmp.Or(op.SentAt, op.CreatedAt)
		switch {
		case op.Now.Sub(op.CreatedAt) >= overdue && op.Verdict != "":
			all = append(all, ofOperation("open", &op, op.CreatedAt, "verdict: "+op.Decision(), process))
		case op.Now.Sub(op.CreatedAt) >= overdue:
			do := process + ", and what the note says; look in the provider's books for " + op.ProviderKey + ", then: " + resolveCommand(&op) + " …"
			all = append(all, ofOperation("open", &op, op.CreatedAt, op.Note, do))
		case op.State == external.Running && op.Now.Sub(since) >= a.olderThan:
			all = append(all, ofOperation("in_flight", &op, since, "an attempt outside of the database", inspect.AttemptAction(op.Due, op.Now)))
		}
	}
	return all, err
}

func ofOperation(kind string, op *external.Operation, since time.Time, note, do string) needed {
	return needed{Kind: kind, Scope: op.Scope, Tool: op.Tool, Key: op.Key, Since: since.UTC(), Note: note, Do: do, now: op.Now}
}

func resolveCommand(op *external.Operation) string {
	return fmt.Sprintf("dedup resolve %s --fence %d", cli.Name(op.Scope, op.Tool, op.Key), op.Fence)
}

func (a *attention) inFlight(ctx context.Context, tx pgx.Tx, db *cli.Database) (all []needed, err error) {
	found, err := inspect.InFlight(ctx, tx, db.Schema, a.olderThan, a.limit+1)
	for _, s := range found {
		all = append(all, needed{Kind: "in_flight", PID: s.PID, Since: s.Since, now: s.Now, Note: sessionText(&s), Do: s.Action()})
	}
	return all, err
}

func (a *attention) due(ctx context.Context, tx pgx.Tx, db *cli.Database) ([]needed, error) {
	since, now, err := inspect.DueSince(ctx, tx, db.Schema)
	if err != nil || now.Sub(since) <= overdue { // both are zero where nothing is due
		return nil, err
	}
	return []needed{{
		Kind: "sweep", Since: since, now: now, Note: "the oldest record that is due",
		Do: "run a Sweeper on every instance; if there is one, look for its errors (tool_dedup_swept)",
	}}, nil
}
