package external

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/guard"
)

const (
	// pollEvery is how often Recover asks what is due, where nothing was.
	pollEvery = time.Second
	// refillAfter is how long it lets free slots of a busy tool gather before it asks again.
	refillAfter = 10 * time.Millisecond
	// forgetEvery is how often it deletes operations that may be forgotten.
	forgetEvery = time.Minute
)

// Recover does what is due for the tools that are registered, and deletes operations that
// may be forgotten, until ctx ends; then it returns nil, when what it was doing is done.
// Run it in every process: any number may, and each operation is acted on by one at a
// time. Each tool has [Options.Workers] of its own. It rides out faults of the database. The error is
// an [dedup.ErrInvalid].
func (x *Tools) Recover(ctx context.Context) error {
	if err := x.open(); err != nil {
		return err
	}
	if guard.Inside(ctx) {
		return errInside
	}
	s := newSlots(x.opts.Workers)
	defer s.taken.Wait()
	var swept time.Time
	for ctx.Err() == nil {
		began := time.Now()
		err := x.findEngine(ctx, x.pool)
		if err == nil && began.Sub(swept) >= forgetEvery {
			swept = began
			_ = x.sweep(ctx) // the next time will do
		}
		var due []*row
		if err == nil {
			due, _ = x.due(ctx, s) // the next time will do
		}
		for _, r := range due {
			if !x.recover(ctx, s, r, began) {
				return nil
			}
		}
		poll := min(pollEvery, x.opts.Lease/10)
		s.wait(ctx, poll/2+rand.N(poll))
	}
	return nil
}

// recover advances an operation on a slot of its tool. It reports whether to go on.
func (x *Tools) recover(ctx context.Context, s *slots, r *row, began time.Time) bool {
	a, started, err := x.start(ctx, r.Identity, false, func(ctx context.Context, a *act) { x.advance(ctx, a, x.tool(r.Tool), r, began) })
	if err != nil || !started { // this process is at it already
		return err == nil
	}
	s.take(r.Tool)
	go func() {
		<-a.over
		s.free(r.Tool)
	}()
	return true
}

// due returns operations that are due, of each tool at most as many as it has free slots, in one round
// trip.
func (x *Tools) due(ctx context.Context, s *slots) (all []*row, err error) {
	b := &pgx.Batch{}
	x.mu.Lock()
	for name := range x.tools {
		if free := s.left(name); free > 0 {
			b.Queue(x.sql().due, name, int64(free)).Query(func(rows pgx.Rows) error {
				due, err := collect(rows, nil)
				s.hasMore(name, len(due) == free)
				all = append(all, due...)
				return err
			})
		}
	}
	x.mu.Unlock()
	if b.Len() == 0 {
		return nil, nil
	}
	err = x.pool.SendBatch(ctx, b).Close()
	return all, err
}

// sweep deletes operations that may be forgotten.
func (x *Tools) sweep(ctx context.Context) error {
	sql := x.sql()
	if sql.forgetIn == "" {
		return x.forgetAll(ctx, sql.forget)
	}
	rows, err := x.pool.Query(ctx, sql.forgetIn)
	if err != nil {
		return err
	}
	scopes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, scope := range scopes {
		err = errors.Join(err, x.forgetAll(ctx, sql.forget, scope))
	}
	return err
}

func (x *Tools) forgetAll(ctx context.Context, sql string, args ...any) error {
	for {
		tag, err := x.pool.Exec(ctx, sql, args...)
		if err != nil || tag.RowsAffected() < 1000 {
			return err
		}
	}
}
