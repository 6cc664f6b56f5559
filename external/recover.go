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
	// pollEvery is how often Recover reads the due operations of a tool that had none.
	pollEvery = time.Second
	// refillAfter is the pause between two reads for a busy tool, in which slots become free.
	refillAfter = 10 * time.Millisecond
	// forgetEvery is how often Recover deletes old operations.
	forgetEvery = time.Minute
)

// Recover acts on the due operations of all registered tools, and deletes old operations. It
// returns nil after ctx has ended or x is closed and its own acts have ended. Run it in every
// process: each operation is acted on by one process at a time. Each tool has [Options.Workers]
// slots; parked operations use at most half of them. Recover continues after errors of the
// database. The error is a [dedup.ErrInvalid].
//
// If the network drops packets, an act that waits for the database keeps its connection and its
// slot until the operating system ends the connection. By the defaults of Linux that takes up to
// some 15 minutes. Other processes go on after Lease. A TCP_USER_TIMEOUT that the pool's DialFunc
// sets shortens it.
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
			_ = x.sweep(ctx) // retried after forgetEvery
		}
		_ = pause(ctx, x.poll())
	}
	return nil
}

func (x *Tools) poll() time.Duration {
	poll := min(pollEvery, x.opts.Lease/10)
	return poll/2 + rand.N(poll)
}

// added returns the registered tools.
func (x *Tools) added() []*definition {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.tools))
}

// recover acts on a tool's due operations in Options.Workers slots. Half of the slots are not for
// parked operations: if their outcomes cannot be recorded, they are due again and again.
func (x *Tools) recover(ctx context.Context, t *definition) {
	slots := make(chan struct{}, x.opts.Workers) // holds one element for each slot in use
	parked := make(chan struct{}, max(1, x.opts.Workers/2))
	var running sync.WaitGroup
	defer running.Wait()
	for wait := time.Duration(0); ; {
		select { // wait for a free slot
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
		due, _ := x.rows(ctx, x.sql.due, t.Name, int64(free), len(parked) < cap(parked)) // retried at the next poll
		took := false
		for _, r := range due {
			if r.state == StateParked && len(parked) == cap(parked) {
				continue
			}
			a, started, err := x.acts.start(ctx, r.Identity, false, func(ctx context.Context, a *act) { x.advance(ctx, a, t, r, began) })
			if err != nil { // x is closed
				return
			}
			if !started { // this process is already acting on it
				continue
			}
			took = true
			slots <- struct{}{}
			if r.state == StateParked {
				parked <- struct{}{}
			}
			running.Go(func() { <-a.over })
			go func() { // an act that ignores its context keeps its slot while it runs
				<-a.done
				a.abandoned.Wait()
				if r.state == StateParked {
					<-parked
				}
				<-slots
			}()
		}
		wait = x.poll()
		if took && len(due) == free { // more operations may be due
			wait = refillAfter
		}
	}
}

// sweep deletes operations whose records are gone.
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
