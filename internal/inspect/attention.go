package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/external"
)

const (
	// brokenSearched is the most lines of the audit about broken records that are checked.
	brokenSearched = 1000
	// overdue is the age from which due records and open operations need attention.
	overdue = time.Hour
	// theSweep is the only list whose table must exist.
	theSweep = "the sweep"
)

// Need is one thing that needs an operator. `dedup attention --json` writes it.
type Need struct {
	// Kind is broken, parked, twice, open, in_flight or sweep.
	Kind string `json:"kind"`
	// Scope, Tool and Key are empty if only the session of a call is known.
	Scope string `json:"scope,omitempty"`
	Tool  string `json:"tool,omitempty"`
	Key   string `json:"key,omitempty"`
	// PID is the server's process that runs the call.
	PID   int32     `json:"pid,omitempty"`
	Since time.Time `json:"since"` // zero if unknown
	Note  string    `json:"note,omitempty"`
	// Do is the action to take. It names the call.
	Do string `json:"do"`

	Session *Session  `json:"-"` // nil if there is none
	Now     time.Time `json:"-"` // when it was read

	overdue bool // the operation is also listed as open
}

// Age is the time since Since, zero if unknown.
func (n *Need) Age() time.Duration {
	if n.Since.IsZero() {
		return 0
	}
	return n.Now.Sub(n.Since)
}

// Attention lists everything that needs an operator.
type Attention struct {
	Needs []Need
	// InFlight are all calls in flight, the oldest first. If Problem is not nil, other processes'
	// calls could not be read.
	InFlight []Need
	Problem  error
	// More names the lists that are longer than the limit, and Missing those whose table does not
	// exist.
	More, Missing []string
}

// Attention reads everything that needs an operator, at most limit entries of each kind. Only the
// given scopes are read; nil means all scopes and the sweep. A call in flight counts if it is older
// than olderThan.
func (db *Database) Attention(ctx context.Context, scopes []string, olderThan time.Duration, limit int) (*Attention, error) {
	var a Attention
	var open []external.Operation
	a.InFlight, open, a.Problem = db.flying(ctx, scopes, limit+1)
	for _, list := range []struct {
		name string
		read func() ([]Need, error)
	}{
		{"broken records", func() ([]Need, error) { return db.broken(ctx, scopes, limit+1) }},
		{"effects outside the database", func() ([]Need, error) { return db.parked(ctx, scopes, limit+1) }},
		{"effects that are open", func() ([]Need, error) { return openForLong(open), nil }},
		{"calls in flight", func() ([]Need, error) { return inFlightFor(olderThan, a.InFlight), nil }},
		{theSweep, func() ([]Need, error) { return db.late(ctx, scopes) }},
	} {
		found, err := list.read()
		switch {
		case IsMissing(err) && list.name != theSweep:
			a.Missing = append(a.Missing, list.name)
			continue
		case err != nil:
			return nil, fmt.Errorf("%s: %w", list.name, err)
		case len(found) > limit:
			a.More, found = append(a.More, list.name), found[:limit]
		}
		a.Needs = append(a.Needs, found...)
	}
	return &a, nil
}

// Stuck reads the broken records, and the operations that are parked or happened twice, of all
// scopes and at most limit of each. If there is an error, it returns the entries that it could
// read.
func (db *Database) Stuck(ctx context.Context, limit int) ([]Need, error) {
	parked, err := db.parked(ctx, nil, limit)
	broken, brokenErr := db.broken(ctx, nil, limit)
	return append(parked, broken...), errors.Join(err, brokenErr)
}

// broken finds through the audit the records that are still broken, the latest first.
func (db *Database) broken(ctx context.Context, scopes []string, limit int) (all []Need, err error) {
	err = db.read(ctx, func(r *reader) error {
		lines, err := collect[struct {
			Scope, Tool, Key string
			At               time.Time
			Reason           string
			Now              time.Time
		}](r, stillBroken(scopes, limit))
		for _, l := range lines {
			all = append(all, Need{
				Kind: "broken", Scope: l.Scope, Tool: l.Tool, Key: l.Key, Since: l.At, Note: l.Reason, Now: l.Now,
				Do: "find out what it did, repair that, then: dedup reset --reason … " + Name(l.Scope, l.Tool, l.Key) +
					"; if it happened, in place of that: dedup resolve --happened … --reason … " + Name(l.Scope, l.Tool, l.Key),
			})
		}
		return err
	})
	return all, err
}

// stillBroken selects the records that are still broken. LATERAL makes every plan look them up one
// by one.
func stillBroken(scopes []string, limit int) query {
	args := pgx.NamedArgs{"scopes": scopes}
	return query{fmt.Sprintf(`SELECT a.scope, a.tool, a.key, max(a.at) AT TIME ZONE 'UTC', max(a.reason), clock_timestamp()
  FROM (SELECT scope, tool, key, created_at, at, reason FROM {audit} WHERE action = 'broken' AND %s ORDER BY at DESC, id DESC LIMIT %d) AS a
 CROSS JOIN LATERAL (
       SELECT FROM {dedup} AS r
        WHERE r.scope = a.scope AND r.tool = a.tool AND r.key = a.key
          AND r.created_at = a.created_at AND r.outcome IN ('broken', 'claimed') AND r.forget_at > clock_timestamp()
        LIMIT 1) AS still
 GROUP BY a.scope, a.tool, a.key
 ORDER BY max(a.at) DESC LIMIT %d`, where(args, "scope = ANY (@scopes::text[])"), brokenSearched, limit), args}
}

// parked reads the operations that are parked or happened twice, the oldest first.
func (db *Database) parked(ctx context.Context, scopes []string, limit int) (all []Need, err error) {
	err = db.read(ctx, func(r *reader) error {
		ops, err := db.Tools.Parked(ctx, r.Tx, external.List{Scopes: scopes, Limit: limit})
		for i := range ops {
			all = append(all, parkedNeed(&ops[i]))
		}
		return err
	})
	return all, err
}

func parkedNeed(op *external.Operation) Need {
	n := needOf("parked", op, op.ChangedAt, op.Note, "look in the provider's books for "+op.ProviderKey+", then: "+resolveCommand(op, "…"))
	if op.Verdict != "" {
		n.Note = "verdict: " + op.Decision()
		n.Do = "nothing, where a process that has the tool runs Tools.Recover; to replace the verdict: " + resolveCommand(op, "--overrule …")
	}
	if op.Twice != "" {
		n.Kind, n.Note = "twice", op.Ref+" and "+op.Twice
		n.Do = "take " + op.Twice + " back at the provider, then: " + resolveCommand(op, "--cleared …")
	}
	return n
}

// openForLong returns the operations without an answer that are overdue.
func openForLong(ops []external.Operation) (all []Need) {
	const process = "see that a process with the tool runs Tools.Recover"
	for i := range ops {
		switch op := &ops[i]; {
		case op.Now.Sub(op.CreatedAt) < overdue:
		case op.Verdict != "":
			all = append(all, needOf("open", op, op.CreatedAt, "verdict: "+op.Decision(), process))
		default:
			do := process + ", and what the note says; look in the provider's books for " + op.ProviderKey + ", then: " + resolveCommand(op, "…")
			all = append(all, needOf("open", op, op.CreatedAt, op.Note, do))
		}
	}
	return all
}

// needOf returns the Need of an operation.
func needOf(kind string, op *external.Operation, since time.Time, note, do string) Need {
	return Need{Kind: kind, Scope: op.Scope, Tool: op.Tool, Key: op.Key, Since: since.UTC(), Note: note, Do: do, Now: op.Now}
}

// resolveCommand returns the command that resolves op. flags are the flags that the operator
// completes.
func resolveCommand(op *external.Operation, flags string) string {
	return fmt.Sprintf("dedup resolve --fence %d %s %s", op.Fence, flags, Name(op.Scope, op.Tool, op.Key))
}

// inFlightFor returns the calls that are older than olderThan and are not listed as open.
func inFlightFor(olderThan time.Duration, calls []Need) (long []Need) {
	for _, n := range calls {
		if !n.overdue && n.Age() >= olderThan {
			long = append(long, n)
		}
	}
	return long
}

// late returns a Need if the sweep is behind. The sweep is about all scopes.
func (db *Database) late(ctx context.Context, scopes []string) ([]Need, error) {
	if scopes != nil {
		return nil, nil
	}
	n := Need{
		Kind: "sweep", Note: "the oldest record that is due",
		Do: "run a Sweeper on every instance; if there is one, look for its errors (tool_dedup_swept)",
	}
	err := db.read(ctx, func(r *reader) error {
		_, err := r.first(oldestDue(), &n.Since, &n.Now)
		return err
	})
	if err != nil || n.Age() <= overdue {
		return nil, err
	}
	return []Need{n}, nil
}

// oldestDue selects the due time of the oldest record that is due.
func oldestDue() query {
	return query{"SELECT {due} AT TIME ZONE 'UTC', clock_timestamp() FROM {dedup}\n WHERE {due} <= now()\n ORDER BY {due} LIMIT 1", nil}
}
