package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/table"
)

// attemptsSearched is how many operations without an answer are looked at for attempts.
const attemptsSearched = 2000

// InFlight reads the calls that have not come to an end, at most limit of other processes, the oldest
// first. With an error those of this process are there.
func (db *Database) InFlight(ctx context.Context, scopes []string, limit int) ([]Need, error) {
	f, err := db.readFlying(ctx, scopes, limit)
	return f.calls, err
}

// flying is what is in flight, the oldest first, and the operations that have no answer.
type flying struct {
	calls []Need
	open  []external.Operation
}

// readFlying reads the calls of this process, the sessions of the server that are at calls of any
// process, and the attempts outside of the database, as far as their scopes are looked at. Sessions
// have no scope: they are read where all are. A session is at a call that holds an advisory lock or
// has written to tool_dedup, as claims do. With an error those of this process are there.
func (db *Database) readFlying(ctx context.Context, scopes []string, limit int) (f flying, err error) {
	var all []Session
	if scopes == nil {
		err = db.read(ctx, func(r *reader) (err error) {
			all, err = sessions(r, inFlightSQL(limit), r.table("tool_dedup"))
			return err
		})
	}
	f.calls = db.flyingHere(scopes, all)
	if err != nil {
		return f, err
	}
	err = ReadOnly(ctx, db.D.Pool(), db.Timeout, func(tx pgx.Tx) (err error) {
		f.open, err = db.Tools.Open(ctx, tx, external.Operation{}, 0, attemptsSearched)
		return err
	})
	f.open = slices.DeleteFunc(f.open, func(op external.Operation) bool { return !seen(scopes, op.Scope) })
	for _, op := range f.open {
		if op.State == external.Running {
			f.calls = append(f.calls, Need{
				Kind: "in_flight", Scope: op.Scope, Tool: op.Tool, Key: op.Key, Since: cmp.Or(op.SentAt, op.CreatedAt).UTC(), Now: op.Now,
				Note: "an attempt outside of the database", Do: attemptAction(op.Due, op.Now), overdue: op.Now.Sub(op.CreatedAt) >= overdue,
			})
		}
	}
	slices.SortStableFunc(f.calls, func(a, b Need) int { return cmp.Compare(b.Age(), a.Age()) })
	if IsMissing(err) {
		err = nil // [Database.Attention] says so
	}
	return f, err
}

// flyingHere joins this process's own calls, which have names, with the sessions that hold their
// locks. The other sessions come after them.
func (db *Database) flyingHere(scopes []string, sessions []Session) (all []Need) {
	holders, named := map[int64]*Session{}, map[int32]bool{}
	for i := range sessions {
		for _, lock := range sessions[i].locks {
			holders[lock] = &sessions[i]
		}
	}
	for _, own := range db.D.Stats().InFlight {
		if !seen(scopes, own.Scope) {
			continue
		}
		n := Need{
			Kind: "in_flight", Scope: own.Scope, Tool: own.Tool, Key: own.Key, Since: own.StartedAt.UTC(), Now: time.Now(),
			Note: own.Func + " in this process", Do: "it waits, or its effect has no session",
		}
		if n.Session = holders[table.Identity{Scope: own.Scope, Tool: own.Tool, Key: own.Key}.LockKey(db.D.Options().Schema)]; n.Session != nil {
			named[n.Session.PID] = true
			n.PID, n.Do = n.Session.PID, n.Session.action()
		}
		all = append(all, n)
	}
	for i := range sessions {
		if s := &sessions[i]; !named[s.PID] {
			n := Need{Kind: "in_flight", PID: s.PID, Since: s.Since, Now: s.Now, Note: "another process", Do: s.action(), Session: s}
			if s.sweeps {
				n.Note = "a sweep"
			}
			all = append(all, n)
		}
	}
	return all
}

// action says what somebody may do about it.
func (s *Session) action() string {
	return fmt.Sprintf("see what it does; to roll it back: SELECT pg_terminate_backend(%d)", s.PID)
}

// attemptAction says what somebody may do about an attempt outside of the database, with which
// others may go on when it is due.
func attemptAction(due, now time.Time) string {
	if due.After(now) {
		return fmt.Sprintf("wait: from %s on another process goes on with it, if this one does not", due.UTC().Format("15:04:05Z"))
	}
	return "its process is gone: run one that has the tool, with Recover"
}
