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

// attemptsSearched is the most operations without an answer that are searched for attempts.
const attemptsSearched = 2000

// InFlight reads the calls in flight, at most limit of other processes, the oldest first. If there
// is an error, it returns those of this process.
func (db *Database) InFlight(ctx context.Context, scopes []string, limit int) ([]Need, error) {
	calls, _, err := db.flying(ctx, scopes, limit)
	return calls, err
}

// flying reads the calls in flight: those of this process, the server's sessions that run calls of
// any process, and attempts outside the database. It also returns the operations without an
// answer. Sessions have no scope, so they are read only if scopes is nil. If there is an error, it
// returns the calls of this process.
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
		if op := &open[i]; op.State == external.StateRunning {
			n := needOf("in_flight", op, cmp.Or(op.SentAt, op.CreatedAt), "an attempt outside the database", attemptAction(op))
			n.overdue = op.Now.Sub(op.CreatedAt) >= overdue
			calls = append(calls, n)
		}
	}
	slices.SortStableFunc(calls, func(a, b Need) int { return cmp.Compare(b.Age(), a.Age()) })
	if IsMissing(err) {
		err = nil // [Database.Attention] reports it
	}
	return calls, open, err
}

// flyingHere returns the calls of this process, which have names, each with the session that holds
// its lock. The other sessions follow.
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

// action is the action that an operator may take.
func (s *Session) action() string {
	return fmt.Sprintf("see what it does; to roll it back: SELECT pg_terminate_backend(%d)", s.PID)
}

// attemptAction is the action that an operator may take on an attempt outside the database.
func attemptAction(op *external.Operation) string {
	if op.Due.After(op.Now) {
		return fmt.Sprintf("wait: from %s on another process continues it, if this one does not", op.Due.UTC().Format("15:04:05Z"))
	}
	return "its process is gone: run one that has the tool and calls Recover"
}
