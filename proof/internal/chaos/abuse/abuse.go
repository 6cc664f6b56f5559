// Package abuse is the campaign of effects that break their own transaction, in
// more than sixty ways and every exec mode. Whatever an effect does, its work may
// be there once at most, for ever, and an answer is only given where it is.
package abuse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// calls are made of each abused key, the last ones by an effect that behaves.
	calls, behaving = 4, 2
	// callLimit bounds a call of an abused key, which needs no answer.
	callLimit = 5 * time.Second
)

// procedures are what the ways call.
const procedures = `
CREATE PROCEDURE abuse_commit() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$;
CREATE PROCEDURE abuse_rollback() LANGUAGE plpgsql AS $$ BEGIN ROLLBACK; END $$;`

// Run runs the campaign. Params.Calls does not matter.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	chosen := lab.Modes
	if p.Short {
		chosen = lab.Modes[:1]
	}
	answered, refused, spoiled := 0, 0, 0
	for _, mode := range chosen {
		a, err := run(ctx, l, mode, true)
		s.Enter(a.Arm)
		answered += a.answered
		refused += a.refused
		spoiled += a.spoiled
		if err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		p.Sayf("%s: %d ways, %d calls: %v", mode, len(ways), a.Calls, a.Tally)
	}
	s.Details["ways"], s.Details["answered_at_once"], s.Details["refused_at_once"] = len(ways), answered, refused
	s.Details["spoiled_connections"] = spoiled
	a, err := run(ctx, l, lab.Modes[0], false)
	s.EnterControl(a.Arm)
	return err
}

// arm is what came of the ways in one mode.
type arm struct {
	lab.Arm
	answered, refused int // of the first calls
	spoiled           int // connections that served no more
}

func run(ctx context.Context, l *lab.Lab, mode pgx.QueryExecMode, withDedup bool) (a arm, err error) {
	db, err := l.Create(ctx)
	if err != nil {
		return a, err
	}
	defer func() { _ = db.Drop(ctx) }()
	if _, err := db.Pool.Exec(ctx, procedures); err != nil {
		return a, err
	}
	ledger := lab.NewLedger()
	for i, w := range ways {
		a.Fault("abuse", 1)
		if err := a.try(ctx, db, mode, withDedup, w, fmt.Sprint(i), ledger); err != nil {
			return a, fmt.Errorf("%s: %w", w.name, err)
		}
		// A server that takes prepared transactions keeps one, with its locks, where nobody guards.
		_, _ = db.Pool.Exec(ctx, `ROLLBACK PREPARED 'abuse'`)
	}
	a.Tally, err = ledger.Settle(ctx, db.Pool)
	return a, err
}

// try makes the calls of one way: with the abuse, and then without, on the
// connection that it has left behind and by another client.
func (a *arm) try(ctx context.Context, db *lab.Database, mode pgx.QueryExecMode, withDedup bool, w way, key string, ledger *lab.Ledger) error {
	pool, err := lab.OpenPool(ctx, db.URL, 1, mode)
	if err != nil {
		return err
	}
	defer pool.Close()
	var d *dedup.Deduper
	if withDedup {
		if d, err = dedup.New(pool, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}}); err != nil {
			return err
		}
	}
	for n := range calls {
		abuse := &w
		if n >= calls-behaving {
			abuse = nil
		}
		run, err := call(ctx, callLimit, pool, d, key, abuse)
		a.Calls++
		if n == 0 {
			if err == nil {
				a.answered++
			} else {
				a.refused++
			}
		}
		if err == nil {
			ledger.Answered(key, run)
		}
	}
	if withDedup {
		// The next call is served, at the latest on a new connection: what a SET
		// without LOCAL leaves behind stays on the old one, as it does without dedup.
		other := key + "-after"
		run, err := call(ctx, lab.Patience, pool, d, other, nil)
		a.Calls++
		if err != nil {
			a.spoiled++
			pool.Reset()
			run, err = call(ctx, lab.Patience, pool, d, other, nil)
			a.Calls++
		}
		if err != nil {
			return fmt.Errorf("the call after it: %w", err)
		}
		ledger.Answered(other, run)
	}
	return nil
}

// call makes one call on a goroutine of its own, which it may end.
func call(ctx context.Context, limit time.Duration, pool *pgxpool.Pool, d *dedup.Deduper, key string, abuse *way) (run int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w := &world{d: d, call: lab.Call(key), cancel: cancel}
	effect := func(ctx context.Context, tx pgx.Tx) (int64, error) {
		a, err := lab.Run(key)(ctx, tx)
		if err == nil && abuse != nil {
			err = abuse.do(ctx, tx, w)
		}
		return a.Run, err
	}
	err = errExited
	var caller sync.WaitGroup
	caller.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
		}()
		run, err = make(ctx, pool, d, w.call, effect)
	})
	caller.Wait()
	return run, err
}

var errExited = errors.New("the goroutine was ended")

func make(ctx context.Context, pool *pgxpool.Pool, d *dedup.Deduper, call dedup.Call, effect dedup.Effect[int64]) (run int64, err error) {
	if d != nil {
		r, err := dedup.Do(ctx, d, call, effect)
		return r.Value, err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		run, err = effect(ctx, tx)
		return err
	})
	return run, err
}
