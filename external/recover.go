package external

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// pollEvery is how often Recover asks what is due for a tool, where nothing was.
	pollEvery = time.Second
	// refillAfter is how long it lets free slots of a busy tool gather before it asks again.
	refillAfter = 10 * time.Millisecond
	// forgetEvery is how often it deletes operations that may be forgotten.
	forgetEvery = time.Minute
)

// Recover does what is due for the tools that are registered, and deletes operations that
// may be forgotten, until ctx ends or x is closed; then it returns nil, when what it was doing is done.
// Run it in every process: any number may, and each operation is acted on by one at a
// time. Each tool has [Options.Workers] of its own. It rides out faults of the database. The error is
// an [dedup.ErrInvalid].
func (x *Tools) Recover(ctx context.Context) error {
	if err := x.usable(ctx); err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	recovered := map[string]bool{}
	var swept time.Time
	for ctx.Err() == nil && !x.acts.isClosed() {
		for _, t := range x.added() {
			if !recovered[t.Name] {
				recovered[t.Name] = true
				running.Go(func() { x.recover(ctx, t) })
			}
		}
		if began := time.Now(); began.Sub(swept) >= forgetEvery {
			swept = began
			_ = x.sweep(ctx) // the next time will do
		}
		_ = pause(ctx, x.poll())
	}
	return nil
}

func (x *Tools) poll() time.Duration {
	poll := min(pollEvery, x.opts.Lease/10)
	return poll/2 + rand.N(poll)
}

// added are the tools that are registered by now.
func (x *Tools) added() []*definition {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.tools))
}

// recover does what is due for a tool, in so many slots at a time.
func (x *Tools) recover(ctx context.Context, t *definition) {
	slots := make(chan struct{}, x.opts.Workers) // has one for each that is taken
	var running sync.WaitGroup
	defer running.Wait()
	for wait := time.Duration(0); ; {
		select { // until one is free
		case slots <- struct{}{}:
			<-slots
		case <-ctx.Done():
		case <-x.acts.base.Done():
		}
		if pause(ctx, wait) != nil || x.acts.isClosed() {
			return
		}
		free := cap(slots) - len(slots)
		began := time.Now()
		due, _ := x.rows(ctx, x.sql.due, t.Name, int64(free)) // after a fault the next time will do
		took := false
		for _, r := range due {
			a, started, err := x.acts.start(ctx, r.Identity, false, func(ctx context.Context, a *act) { x.advance(ctx, a, t, r, began) })
			if err != nil { // it is closed
				return
			}
			if !started { // this process is at it already
				continue
			}
			took = true
			slots <- struct{}{}
			running.Go(func() { <-a.over })
			go func() { // what does not heed its context takes its slot for as long as it runs
				<-a.done
				a.behind.Wait()
				<-slots
			}()
		}
		wait = x.poll()
		if took && len(due) == free { // there may be more
			wait = refillAfter
		}
	}
}

// sweep deletes operations that may be forgotten.
func (x *Tools) sweep(ctx context.Context) error {
	profile, err := x.engine(ctx, x.pool)
	if err != nil {
		return err
	}
	if !profile.Spread {
		return x.forgetAll(ctx, x.sql.forget)
	}
	rows, _ := x.pool.Query(ctx, x.sql.scopes) // rows have its error
	scopes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, scope := range scopes {
		err = errors.Join(err, x.forgetAll(ctx, x.sql.forgetOf, scope))
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
