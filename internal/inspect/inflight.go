package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/table"
)

// attemptsSearched is how many operations without an answer are looked at for attempts.
const attemptsSearched = 2000

// InFlight reads the calls that have not come to an end, at most limit of other processes, the oldest
// first. With an error those of this process are there.
func (db *Database) InFlight(ctx context.Context, scopes []string, limit int) ([]Need, error) {
	calls, _, err := db.flying(ctx, scopes, limit)
	return calls, err
}

// flying reads the calls of this process, the sessions of the server that are at calls of any
// process, and the attempts outside of the database, as far as their scopes are looked at; and which
// operations have no answer. Sessions have no scope: they are read where all are. With an error the calls
// of this process are there.
func (db *Database) flying(ctx context.Context, scopes []string, limit int) (calls []Need, open []external.Operation, err error) {
	var all []Session
	if scopes == nil {
		err = db.read(ctx, func(r *reader) (err error) {
			all, err = collect[Session](r, sessionsInFlight(r.schema, limit))
			return err
		})
	}
	calls = db.flyingHere(scopes, all)
	if err != nil {
		return calls, nil, err
	}
	err = db.read(ctx, func(r *reader) (err error) {
		open, err = db.Tools.Open(ctx, r.Tx, external.List{Scopes: scopes, Limit: attemptsSearched})
		return err
	})
	for i := range open {
		if op := &open[i]; op.State == external.Running {
			n := needOf("in_flight", op, cmp.Or(op.SentAt, op.CreatedAt), "an attempt outside of the database", attemptAction(op))
			n.overdue = op.Now.Sub(op.CreatedAt) >= overdue
			calls = append(calls, n)
		}
	}
	slices.SortStableFunc(calls, func(a, b Need) int { return cmp.Compare(b.Age(), a.Age()) })
	if IsMissing(err) {
		err = nil // [Database.Attention] says so
	}
	return calls, open, err
}

// flyingHere joins the calls of this process, which have names, with the sessions that hold their
// locks. The other sessions come after them.
func (db *Database) flyingHere(scopes []string, sessions []Session) (all []Need) {
	schema := db.D.Options().Schema
	holders, named := map[int64]*Session{}, map[*Session]bool{}
	for i := range sessions {
		for _, lock := range sessions[i].Locks {
			holders[lock] = &sessions[i]
		}
	}
	for _, here := range db.D.Stats().InFlight {
		if !seen(scopes, here.Scope) {
			continue
		}
		n := Need{
			Kind: "in_flight", Scope: here.Scope, Tool: here.Tool, Key: here.Key, Since: here.StartedAt.UTC(), Now: time.Now(),
			Note: here.Func + " in this process", Do: "it waits, or its effect has no session",
		}
		if s := holders[table.Identity{Scope: here.Scope, Tool: here.Tool, Key: here.Key}.LockKey(schema)]; s != nil {
			n.Session, n.PID, n.Do, named[s] = s, s.PID, s.action(), true
		}
		all = append(all, n)
	}
	for i := range sessions {
		if s := &sessions[i]; !named[s] {
			n := Need{Kind: "in_flight", PID: s.PID, Since: s.Since, Now: s.Now, Note: "another process", Do: s.action(), Session: s}
			if holders[table.SweepLock(schema)] == s {
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
func attemptAction(op *external.Operation) string {
	if op.Due.After(op.Now) {
		return fmt.Sprintf("wait: from %s on another process goes on with it, if this one does not", op.Due.UTC().Format("15:04:05Z"))
	}
	return "its process is gone: run one that has the tool, with Recover"
}
