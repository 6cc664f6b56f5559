package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/exit"
)

const attentionLong = `List what somebody has to look at, each with what to do:

  broken     a record whose effect ended its own transaction
  parked     an effect outside of the database that may have happened
  twice      an effect outside of the database that happened more than once
  in_flight  a session that holds an advisory lock, as calls do, for longer than
             --older-than
  sweep      records that have been due for more than an hour

Every list is read by an index, --limit entries of it at most, in a read-only transaction.
Broken records are found by the audit, among its latest 1,000 of them; where that table is
missing they are not found. What is in flight with Options.Order ClaimFirst has no lock.

The exit code is 0 when nothing is listed, 1 when something is or the database cannot be
read, and 2 when the command line cannot be carried out.`

const (
	// overdue is how long records may be due.
	overdue = time.Hour
	// brokenSearched is how many of the broken records that were written down are looked up.
	brokenSearched = 1000
)

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
	cmd.Flags().DurationVar(&a.olderThan, "older-than", time.Minute, "how long a call may be in flight")
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
	ctx := cmd.Context()
	db, err := q.Open(ctx, cmd.CommandPath(), nil)
	if err != nil {
		return err
	}
	defer db.Close()

	listed := 0
	for _, list := range []struct {
		of       string
		optional bool // its table may be missing
		read     func(context.Context, pgx.Tx, *cli.Database) ([]needed, error)
	}{
		{"broken records", true, a.broken},
		{"effects outside of the database", true, a.effects},
		{"calls in flight", false, a.inFlight},
		{"the sweep", false, a.due},
	} {
		var found []needed
		err := db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
			found, err = list.read(ctx, tx, db)
			return err
		})
		switch {
		case list.optional && cli.IsMissing(err):
			cmd.PrintErrf("Not looked at: %s. A table is missing; `dedup migrate check` says which.\n", list.of)
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", list.of, err)
		}
		if len(found) > a.limit {
			cmd.PrintErrf("There are more of %s than are listed.\n", list.of)
			found = found[:a.limit]
		}
		for i := range found {
			if err := q.Write(cmd.OutOrStdout(), &found[i]); err != nil {
				return err
			}
		}
		listed += len(found)
	}
	switch listed {
	case 0:
		cmd.PrintErrln("Nothing needs attention.")
		return nil
	case 1:
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
		cli.Field{Label: "since", Text: moment(n.Since, n.now)},
		cli.Field{Label: "note", Text: n.Note},
		cli.Field{Label: "do", Text: n.Do},
	)
}

// brokenSQL finds what is broken still. The records are looked up one by one, whatever the
// planner knows of them.
func brokenSQL(audit, records string, limit int) string {
	return fmt.Sprintf(`SELECT a.scope, a.tool, a.key, max(a.at), max(a.reason), clock_timestamp()
  FROM (SELECT scope, tool, key, created_at, at, reason FROM %s WHERE action = 'broken' ORDER BY id DESC LIMIT %d) AS a
 CROSS JOIN LATERAL (
       SELECT FROM %s AS r
        WHERE r.scope = a.scope AND r.tool = a.tool AND r.key = a.key
          AND r.created_at = a.created_at AND r.outcome IN ('broken', 'claimed') AND r.forget_at > clock_timestamp()
        LIMIT 1) AS still
 GROUP BY a.scope, a.tool, a.key
 ORDER BY max(a.at) DESC LIMIT %d`, audit, brokenSearched, records, limit)
}

func (a *attention) broken(ctx context.Context, tx pgx.Tx, db *cli.Database) ([]needed, error) {
	rows, err := tx.Query(ctx, brokenSQL(db.Name("tool_dedup_audit"), db.Table(), a.limit+1))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (needed, error) {
		n := needed{Kind: "broken"}
		err := row.Scan(&n.Scope, &n.Tool, &n.Key, &n.Since, &n.Note, &n.now)
		n.Since = n.Since.UTC()
		n.Do = "find out what it did, repair that, then: dedup reset " + cli.Name(n.Scope, n.Tool, n.Key) + " --reason …"
		return n, err
	})
}

func (a *attention) effects(ctx context.Context, tx pgx.Tx, db *cli.Database) ([]needed, error) {
	ops, err := db.Tools.ParkedTx(ctx, tx, external.Operation{}, a.limit+1)
	var all []needed
	for _, op := range ops {
		n := needed{Kind: "parked", Scope: op.Scope, Tool: op.Tool, Key: op.Key, Since: op.ChangedAt.UTC(), Note: op.Note, now: op.Now}
		n.Do = fmt.Sprintf("look in the provider's books for %s, then: dedup resolve %s --fence %d …", op.ProviderKey, cli.Name(op.Scope, op.Tool, op.Key), op.Fence)
		if op.Twice != "" {
			n.Kind, n.Note = "twice", op.Ref+" and "+op.Twice
			n.Do = "take one back at the provider, then take it off the list as docs/external.md says"
		}
		all = append(all, n)
	}
	return all, err
}

// heldSQL finds the sessions that hold advisory locks for long.
func heldSQL(limit int) string {
	return fmt.Sprintf(`SELECT l.pid, a.xact_start, count(*), COALESCE(max(a.state), ''), COALESCE(max(a.application_name), ''), COALESCE(max(host(a.client_addr)), ''), clock_timestamp()
  FROM %s AND l.granted AND a.xact_start < clock_timestamp() - $1::interval
 GROUP BY l.pid, a.xact_start
 ORDER BY a.xact_start LIMIT %d`, advisorySQL, limit)
}

func (a *attention) inFlight(ctx context.Context, tx pgx.Tx, _ *cli.Database) ([]needed, error) {
	rows, err := tx.Query(ctx, heldSQL(a.limit+1), a.olderThan)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (needed, error) {
		var s session
		var locks int64
		err := row.Scan(&s.PID, &s.Since, &locks, &s.State, &s.Application, &s.Client, &s.now)
		s.Since = s.Since.UTC()
		return needed{
			Kind: "in_flight", PID: s.PID, Since: s.Since, now: s.now, Note: fmt.Sprintf("%d locks, %s", locks, s.text()),
			Do: fmt.Sprintf("see what it does; to roll it back: SELECT pg_terminate_backend(%d)", s.PID),
		}, err
	})
}

// dueSQL reads since when the oldest record is due.
func dueSQL(table string) string {
	return fmt.Sprintf(`SELECT %[1]s, clock_timestamp() FROM %[2]s
 WHERE %[1]s <= now()
 ORDER BY %[1]s LIMIT 1`, examiner.DueExpression, table)
}

func (a *attention) due(ctx context.Context, tx pgx.Tx, db *cli.Database) ([]needed, error) {
	n := needed{Kind: "sweep", Note: "the oldest record that is due"}
	err := tx.QueryRow(ctx, dueSQL(db.Table())).Scan(&n.Since, &n.now)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case n.now.Sub(n.Since) <= overdue:
		return nil, nil
	}
	n.Since = n.Since.UTC()
	n.Do = "run a Sweeper on every instance; if there is one, look for its errors (tool_dedup_swept)"
	return []needed{n}, nil
}
