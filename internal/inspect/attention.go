package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/examiner"
)

const (
	// brokenSearched is how many of the broken records that were written down are looked up.
	brokenSearched = 1000
	// overdue is how long records may be due, and effects outside of the database be open.
	overdue = time.Hour
	// theSweep is the one list whose table must be there.
	theSweep = "the sweep"
)

// Need is something that somebody has to look at, as `dedup attention --json` writes it.
type Need struct {
	// Kind is broken, parked, twice, open, in_flight or sweep.
	Kind string `json:"kind"`
	// Scope, Tool and Key are empty where only the session of a call is known.
	Scope string `json:"scope,omitempty"`
	Tool  string `json:"tool,omitempty"`
	Key   string `json:"key,omitempty"`
	// PID is the process of the server that is at it.
	PID   int32     `json:"pid,omitempty"`
	Since time.Time `json:"since"` // zero where it is not known
	Note  string    `json:"note,omitempty"`
	// Do says what to do. It names the call.
	Do string `json:"do"`

	Session *Session  `json:"-"` // nil where there is none
	Now     time.Time `json:"-"` // when it was read

	overdue bool // an attempt at an operation that is listed as open
}

// Age is how long it has been so, zero where that is not known.
func (n *Need) Age() time.Duration {
	if n.Since.IsZero() {
		return 0
	}
	return n.Now.Sub(n.Since)
}

// Attention is what somebody has to look at.
type Attention struct {
	Needs []Need
	// InFlight are the calls that have not come to an end, in flight for long or not, the oldest
	// first. Where Problem is not nil only those of this process could be read.
	InFlight []Need
	Problem  error
	// More names the lists that are longer than the limit, and Missing those whose table is not
	// there.
	More, Missing []string
}

// Attention reads what needs somebody, at most limit entries of each kind. Scopes are those that are
// looked at; nil means all, and the sweep. Calls need somebody who have been in flight for olderThan.
func (db *Database) Attention(ctx context.Context, scopes []string, olderThan time.Duration, limit int) (*Attention, error) {
	var a Attention
	add := func(list string, found []Need, err error) error {
		switch {
		case IsMissing(err) && list != theSweep:
			a.Missing = append(a.Missing, list)
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", list, err)
		case len(found) > limit:
			a.More, found = append(a.More, list), found[:limit]
		}
		a.Needs = append(a.Needs, found...)
		return nil
	}
	found, err := db.broken(ctx, scopes, limit+1)
	if err := add("broken records", found, err); err != nil {
		return nil, err
	}
	found, err = db.parked(ctx, scopes, limit+1)
	if err := add("effects outside of the database", found, err); err != nil {
		return nil, err
	}
	var all flying
	all, a.Problem = db.readFlying(ctx, scopes, limit+1)
	if err := add("effects that are open", openOf(all.open), nil); err != nil {
		return nil, err
	}
	var long []Need
	for _, n := range all.calls {
		if !n.overdue && n.Age() >= olderThan {
			long = append(long, n)
		}
	}
	if err := add("calls in flight", long, nil); err != nil {
		return nil, err
	}
	a.InFlight = all.calls
	if scopes != nil {
		return &a, nil
	}
	found, err = db.late(ctx)
	return &a, add(theSweep, found, err)
}

// broken reads which records are broken still, the latest first. They are found by the audit.
func (db *Database) broken(ctx context.Context, scopes []string, limit int) (all []Need, err error) {
	err = db.read(ctx, func(r *reader) (err error) {
		args := []any{}
		if scopes != nil {
			args = append(args, scopes)
		}
		all, err = collect(r, func(row pgx.CollectableRow) (Need, error) {
			n := Need{Kind: "broken"}
			err := row.Scan(&n.Scope, &n.Tool, &n.Key, &n.Since, &n.Note, &n.Now)
			n.Since = n.Since.UTC()
			n.Do = "find out what it did, repair that, then: dedup reset " + Name(n.Scope, n.Tool, n.Key) + " --reason …"
			return n, err
		}, brokenSQL(r.table("tool_dedup_audit"), r.table("tool_dedup"), scopes != nil, limit), args...)
		return err
	})
	return all, err
}

// brokenSQL finds what is broken still. The records are looked up one by one, whatever the
// planner knows of them.
func brokenSQL(audit, records string, scoped bool, limit int) string {
	scope := ""
	if scoped {
		scope = " AND scope = ANY ($1::text[])"
	}
	return fmt.Sprintf(`SELECT a.scope, a.tool, a.key, max(a.at), max(a.reason), clock_timestamp()
  FROM (SELECT scope, tool, key, created_at, at, reason FROM %s WHERE action = 'broken'%s ORDER BY id DESC LIMIT %d) AS a
 CROSS JOIN LATERAL (
       SELECT FROM %s AS r
        WHERE r.scope = a.scope AND r.tool = a.tool AND r.key = a.key
          AND r.created_at = a.created_at AND r.outcome IN ('broken', 'claimed') AND r.forget_at > clock_timestamp()
        LIMIT 1) AS still
 GROUP BY a.scope, a.tool, a.key
 ORDER BY max(a.at) DESC LIMIT %d`, audit, scope, brokenSearched, records, limit)
}

// parked reads the operations that are parked or happened twice, the oldest first.
func (db *Database) parked(ctx context.Context, scopes []string, limit int) (all []Need, err error) {
	if scopes != nil {
		limit = attemptsSearched // of all scopes
	}
	err = ReadOnly(ctx, db.D.Pool(), db.Timeout, func(tx pgx.Tx) error {
		ops, err := db.Tools.Parked(ctx, tx, external.Operation{}, limit)
		for i := range ops {
			if op := &ops[i]; seen(scopes, op.Scope) {
				all = append(all, parkedNeed(op))
			}
		}
		return err
	})
	return all, err
}

func parkedNeed(op *external.Operation) Need {
	resolve := resolveCommand(op)
	n := ofOperation("parked", op, op.ChangedAt, op.Note, "look in the provider's books for "+op.ProviderKey+", then: "+resolve+" …")
	if op.Verdict != "" {
		n.Note = "verdict: " + op.Decision()
		n.Do = "nothing, where a process that has the tool runs Tools.Recover; to replace the verdict: " + resolve + " --overrule …"
	}
	if op.Twice != "" {
		n.Kind, n.Note = "twice", op.Ref+" and "+op.Twice
		n.Do = "take " + op.Twice + " back at the provider, then: " + resolve + " --cleared …"
	}
	return n
}

// openOf has the operations without an answer that are overdue.
func openOf(ops []external.Operation) (all []Need) {
	const process = "see that a process with the tool runs Tools.Recover"
	for i := range ops {
		switch op := &ops[i]; {
		case op.Now.Sub(op.CreatedAt) < overdue:
		case op.Verdict != "":
			all = append(all, ofOperation("open", op, op.CreatedAt, "verdict: "+op.Decision(), process))
		default:
			do := process + ", and what the note says; look in the provider's books for " + op.ProviderKey + ", then: " + resolveCommand(op) + " …"
			all = append(all, ofOperation("open", op, op.CreatedAt, op.Note, do))
		}
	}
	return all
}

func ofOperation(kind string, op *external.Operation, since time.Time, note, do string) Need {
	return Need{Kind: kind, Scope: op.Scope, Tool: op.Tool, Key: op.Key, Since: since.UTC(), Note: note, Do: do, Now: op.Now}
}

func resolveCommand(op *external.Operation) string {
	return fmt.Sprintf("dedup resolve %s --fence %d", Name(op.Scope, op.Tool, op.Key), op.Fence)
}

// dueSQL reads since when the oldest record is due.
func dueSQL(table string) string {
	return fmt.Sprintf(`SELECT %[1]s, clock_timestamp() FROM %[2]s
 WHERE %[1]s <= now()
 ORDER BY %[1]s LIMIT 1`, examiner.DueExpression, table)
}

// late says whether the sweep is behind.
func (db *Database) late(ctx context.Context) ([]Need, error) {
	n := Need{
		Kind: "sweep", Note: "the oldest record that is due",
		Do: "run a Sweeper on every instance; if there is one, look for its errors (tool_dedup_swept)",
	}
	err := db.read(ctx, func(r *reader) error {
		_, err := r.first(dueSQL(r.table("tool_dedup")), nil, &n.Since, &n.Now)
		n.Since = n.Since.UTC()
		return err
	})
	if err != nil || n.Age() <= overdue {
		return nil, err
	}
	return []Need{n}, nil
}
