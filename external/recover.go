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
	// page is how many operations it takes at a time.
	page = 100
	// forgetEvery is how often it deletes operations that may be forgotten.
	forgetEvery = time.Minute
)

// Recover does what is due for the tools that are registered, and deletes operations that
// may be forgotten, until ctx ends; then it returns nil, when what it was doing is done.
// Run it in every process: any number may, and each operation is acted on by one at a
// time. It rides out faults of the database. The error is an [dedup.ErrInvalid].
func (x *Tools) Recover(ctx context.Context) error {
	if err := x.open(); err != nil {
		return err
	}
	if guard.Inside(ctx) {
		return errInside
	}
	slots := make(chan struct{}, x.opts.Workers)
	defer func() { // wait for all
		for range cap(slots) {
			slots <- struct{}{}
		}
	}()
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
			due, err = x.due(ctx)
		}
		for _, r := range due {
			if !x.recover(ctx, slots, r, began) {
				return nil
			}
		}
		if err != nil || len(due) < page {
			_ = pause(ctx, min(pollEvery, x.opts.Lease/10)/2+rand.N(min(pollEvery, x.opts.Lease/10)))
		}
	}
	return nil
}

// recover advances an operation on a free slot. It reports whether to go on.
func (x *Tools) recover(ctx context.Context, slots chan struct{}, r *row, began time.Time) bool {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	a, started, err := x.start(ctx, r.Identity, false, func(ctx context.Context, a *act) { x.advance(ctx, a, x.tool(r.Tool), r, began) })
	if err != nil || !started { // this process is at it already
		<-slots
		return err == nil
	}
	go func() {
		<-a.over
		<-slots
	}()
	return true
}

// due returns the operations of the registered tools that are due.
func (x *Tools) due(ctx context.Context) ([]*row, error) {
	x.mu.Lock()
	names := make([]string, 0, len(x.tools))
	for name := range x.tools {
		names = append(names, name)
	}
	x.mu.Unlock()
	return x.rows(ctx, x.sql().due, names, page)
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
