package dedupweb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/inspect"
	"github.com/tooldedup/dedup/internal/table"
)

// inFlight are the oldest calls that have not come to an end.
type inFlight struct {
	Calls []flying
	More  bool
	// Problem says why those of other processes could not be read.
	Problem string
}

// flying is a call that has not come to an end. Call is nil where only its session is known,
// and Session is nil where it has none. Open says that it is one of the operations that are open
// for long.
type flying struct {
	Call    *call
	By      string
	Session *inspect.Session
	Age     time.Duration // zero where it is not known
	Action  string
	Open    bool
}

// Count is how many are listed, and says where there are more.
func (f *inFlight) Count() string {
	if f.More {
		return fmt.Sprintf("%d+", len(f.Calls))
	}
	return fmt.Sprint(len(f.Calls))
}

func (c *console) showInFlight(v *visit) error {
	return v.page("inflight", c.readInFlight(v.r.Context(), &v.Access))
}

// readInFlight reads the calls of this process, the sessions of the server that are at calls of
// any process, and the attempts outside of the database, as far as they may be seen.
func (c *console) readInFlight(ctx context.Context, a *Access) *inFlight {
	var sessions []inspect.Session
	var ops []external.Operation
	_, err := c.read(ctx, func(tx pgx.Tx) (err error) {
		if a.seesAll() {
			sessions, err = inspect.InFlight(ctx, tx, c.db.Schema, 0, listed+1)
		}
		if err == nil {
			ops, err = c.tools.OpenTx(ctx, tx, external.Operation{}, 0, searched)
		}
		return err
	})
	all := &inFlight{Calls: c.flyingHere(a, sessions), More: len(ops) == searched}
	if err != nil {
		all.Problem = explained(err)
	}
	for _, op := range ops {
		if op.State == external.Running && a.sees(op.Scope) {
			all.Calls = append(all.Calls, flying{
				Call: &call{op.Scope, op.Tool, op.Key, a.Keys}, By: "an attempt outside of the database", Age: op.Now.Sub(cmp.Or(op.SentAt, op.CreatedAt)),
				Action: inspect.AttemptAction(op.Due, op.Now), Open: op.Now.Sub(op.CreatedAt) >= overdue,
			})
		}
	}
	slices.SortStableFunc(all.Calls, func(a, b flying) int { return cmp.Compare(b.Age, a.Age) })
	if len(all.Calls) > listed {
		all.Calls, all.More = all.Calls[:listed], true
	}
	return all
}

// flyingHere joins this process' own calls, which have names, with the sessions that hold their
// locks. The other sessions come after them.
func (c *console) flyingHere(a *Access, sessions []inspect.Session) (all []flying) {
	a.hide(sessions)
	holders, named := map[int64]*inspect.Session{}, map[int32]bool{}
	for i := range sessions {
		for _, lock := range sessions[i].Locks {
			holders[lock] = &sessions[i]
		}
	}
	for _, own := range c.d.Stats().InFlight {
		if !a.sees(own.Scope) {
			continue
		}
		f := flying{Call: &call{own.Scope, own.Tool, own.Key, a.Keys}, By: own.Func + " in this process", Age: time.Since(own.StartedAt), Action: "it waits, or its effect has no session"}
		if f.Session = holders[table.Identity{Scope: own.Scope, Tool: own.Tool, Key: own.Key}.LockKey(c.db.Schema)]; f.Session != nil {
			named[f.Session.PID] = true
			f.Action = f.Session.Action()
		}
		all = append(all, f)
	}
	for i := range sessions {
		if s := &sessions[i]; !named[s.PID] {
			f := flying{By: "another process", Session: s, Action: s.Action()}
			if s.Sweeps {
				f.By = "a sweep"
			}
			if !s.Since.IsZero() {
				f.Age = s.Now.Sub(s.Since)
			}
			all = append(all, f)
		}
	}
	return all
}

// hide takes away the statements of sessions where they may not be seen.
func (a *Access) hide(sessions []inspect.Session) {
	for i := range sessions {
		if !a.Results {
			sessions[i].Statement = ""
		}
	}
}
