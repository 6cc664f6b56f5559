package scale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// disturbance is what sweeps meet for the time of a case.
type disturbance struct {
	stand
	t         *tool
	l         *caseLoad
	o         SweepOptions
	forgotten atomic.Int64
	held      ear // calls of identities that a hook has locked
	heldCalls atomic.Int64
	calls     sync.WaitGroup
}

// An Archive hook of the case SlowArchive hangs for so long, within the IdleTimeout of its Deduper.
const (
	hookHangs       = 400 * time.Millisecond
	hookIdleTimeout = 600 * time.Millisecond
)

// roundBatches end a sweep soon after its round.
const roundBatches = 4

// idleSweeper is the pause after a sweep that has found nothing.
const idleSweeper = 50 * time.Millisecond

// run makes a round of a case. Nothing of it is left when it returns.
func (d *disturbance) run(ctx context.Context, met SweepCase) error {
	pool, err := d.pool(ctx, 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	sweeper, err := newTool(pool, dedup.Options{Schema: sweepSchema, IdleTimeout: hookIdleTimeout})
	if err != nil {
		return err
	}
	switch met {
	case LockedRows:
		err = d.besideLocks(ctx, func() error { return d.keepSweeping(ctx, sweeper, d.o.library()) })
	case FrozenSweeper:
		err = d.besideFrozen(ctx, func() error { return d.keepSweeping(ctx, sweeper, d.o.library()) })
	case SlowArchive:
		opts := d.o.library()
		opts.Archive, opts.MaxBatches = d.hang, 1
		err = d.keepSweeping(ctx, sweeper, opts)
		d.calls.Wait()
	case TwoSweepers:
		var second sync.WaitGroup
		var secondErr error
		second.Go(func() { secondErr = d.keepSweeping(ctx, d.t, d.o.library()) })
		err = d.keepSweeping(ctx, sweeper, d.o.library())
		second.Wait()
		err = errors.Join(err, secondErr)
	}
	return err
}

// keepSweeping sweeps for the time of a round, or until the round's share of the records is
// gone: the last round must have some too. Each sweep meets anew what is still there.
func (d *disturbance) keepSweeping(ctx context.Context, t *tool, opts *dedup.SweepOptions) error {
	if opts.MaxBatches == 0 {
		opts.MaxBatches = roundBatches
	}
	share := d.forgotten.Load() + int64(d.o.Cases.Records*3/4/d.o.Cases.Rounds)
	for until := time.Now().Add(d.o.Cases.round()); time.Now().Before(until) && d.forgotten.Load() < share; {
		swept, err := t.d.Sweep(ctx, opts)
		if err != nil {
			return err
		}
		d.forgotten.Add(swept.Forgotten)
		if swept.Forgotten == 0 {
			if err := wait(ctx, idleSweeper); err != nil {
				return err
			}
		}
	}
	return nil
}

// besideLocks does the work while one tenant holds some of its forgotten records: those
// that an open DoTx uses anew, and those that a transaction of its own has locked.
func (d *disturbance) besideLocks(ctx context.Context, work func() error) error {
	records := pgx.Identifier{sweepSchema, "tool_dedup"}.Sanitize()
	return pgx.BeginFunc(ctx, d.t.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT key
			  FROM `+records+`
			 WHERE scope = $1
			 ORDER BY random()
			 LIMIT 6`, tenant(0))
		if err != nil {
			return err
		}
		keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for i, key := range keys {
			if i%2 == 0 {
				call := ticketCall(key)
				call.Scope = tenant(0)
				_, err = dedup.DoTx(ctx, d.t.d, tx, call, d.t.effectOf(key))
			} else {
				_, err = tx.Exec(ctx, `SELECT FROM `+records+` WHERE scope = $1 AND key = $2 FOR UPDATE`, tenant(0), key)
			}
			if err != nil {
				return fmt.Errorf("locking a forgotten record: %w", err)
			}
		}
		return work()
	})
}

// besideFrozen does the work while two sweepers are frozen in the middle of a sweep: one
// whose DELETE does not arrive, and one that does not read what it is answered.
func (d *disturbance) besideFrozen(ctx context.Context, work func() error) (err error) {
	proxy, err := faultproxy.New(d.url)
	if err != nil {
		return err
	}
	frozen, stop := context.WithCancel(ctx)
	var sweepers sync.WaitGroup
	defer func() {
		stop()
		proxy.Close()
		sweepers.Wait()
	}()
	for _, kind := range []faultproxy.Kind{faultproxy.Hold, faultproxy.Blackhole} {
		pool, err := pgxpool.New(ctx, proxy.URL())
		if err != nil {
			return err
		}
		t, err := newTool(pool, dedup.Options{Schema: sweepSchema})
		if err != nil {
			pool.Close()
			return err
		}
		fault := proxy.Arm(faultproxy.Fault{Kind: kind, Where: faultproxy.AtSQL("DELETE FROM"), Skip: 1})
		ended := make(chan struct{})
		sweepers.Go(func() {
			defer close(ended)
			defer pool.Close()
			_, _ = t.d.Sweep(frozen, d.o.library()) // does not end by itself
		})
		select {
		case <-fault.Applied():
		case <-ended:
			return errors.New("a sweep ended before it could be frozen: --case-records must be larger")
		}
	}
	return work()
}

// hang is a hook that holds its batch for long, and lets a call use one of the batch's
// identities anew.
func (d *disturbance) hang(ctx context.Context, _ pgx.Tx, batch []dedup.SweptRecord) error {
	for _, r := range batch {
		if r.Scope == tenant(0) { // the load does not use it
			d.callHeld(ctx, caseIdentity{r.Scope, r.Key})
			break
		}
	}
	return wait(ctx, hookHangs)
}

// callHeld makes a call beside the hook, which does not wait for it.
func (d *disturbance) callHeld(ctx context.Context, id caseIdentity) {
	d.calls.Go(func() {
		at := time.Now()
		err := d.l.call(ctx, int(d.heldCalls.Add(1)), id)
		d.held.hear(outcome{at: at, took: time.Since(at), err: err})
	})
}
