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
	counts := map[string]int{}
	s.Details["ways"], s.Details["counts"] = len(ways), counts
	for _, mode := range chosen {
		a, err := run(ctx, l, mode, lab.Ways[0], counts)
		s.Enter(a)
		if err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		p.Sayf("%s: %d ways, %d calls: %v", mode, len(ways), a.Calls, a.Tally)
	}
	a, err := run(ctx, l, lab.Modes[0], lab.Plain, map[string]int{})
	s.EnterControl(a)
	return err
}

// run tries all ways to break a transaction in one mode, in calls that are made by Do or without dedup.
func run(ctx context.Context, l *lab.Lab, mode pgx.QueryExecMode, by lab.Way, counts map[string]int) (a lab.Arm, err error) {
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
		c, err := lab.OpenClient(ctx, db.URL, 1, mode, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}})
		if err != nil {
			return a, err
		}
		t := &trial{Arm: &a, client: c, by: by, ledger: ledger, counts: counts}
		a.Fault("abuse", 1)
		err = t.try(ctx, w, fmt.Sprint(i))
		c.Pool.Close()
		if err != nil {
			return a, fmt.Errorf("%s: %w", w.name, err)
		}
		// A server that takes prepared transactions keeps one, with its locks, where nobody guards.
		_, _ = db.Pool.Exec(ctx, `ROLLBACK PREPARED 'abuse'`)
	}
	a.Tally, err = ledger.Settle(ctx, db.Pool)
	return a, err
}

// trial is that of one way, on a pool of one connection.
type trial struct {
	*lab.Arm
	client *lab.Client
	by     lab.Way
	ledger *lab.Ledger
	counts map[string]int
}

// try makes the calls of one way: with the abuse, and then without, on the connection that it has left
// behind and by another client.
func (t *trial) try(ctx context.Context, w way, key string) error {
	for n := range calls {
		abuse := &w
		if n >= calls-behaving {
			abuse = nil
		}
		err := t.call(ctx, callLimit, key, abuse)
		switch {
		case n > 0:
		case err == nil:
			t.counts["answered at once"]++
		default:
			t.counts["refused at once"]++
		}
	}
	if t.by.Name == lab.Plain.Name {
		return nil
	}
	// The next call is served, at the latest on a new connection: what a SET without LOCAL leaves
	// behind stays on the old one, as it does without dedup.
	err := t.call(ctx, lab.Patience, key+"-after", nil)
	if err != nil {
		t.counts["spoiled connections"]++
		t.client.Pool.Reset()
		err = t.call(ctx, lab.Patience, key+"-after", nil)
	}
	if err != nil {
		return fmt.Errorf("the call after it: %w", err)
	}
	return nil
}

// call makes one call on a goroutine of its own, which it may end.
func (t *trial) call(ctx context.Context, limit time.Duration, key string, abuse *way) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	job := lab.NewJob(key)
	if abuse != nil {
		w := &world{call: job.Call, cancel: cancel}
		if t.by.Name != lab.Plain.Name {
			w.d = t.client.D
		}
		job.Then = func(ctx context.Context, tx pgx.Tx) error { return abuse.do(ctx, tx, w) }
	}
	t.Calls++
	err = errExited
	var caller sync.WaitGroup
	caller.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
		}()
		var answers []lab.Told
		if answers, err = t.by.Make(ctx, t.client, []lab.Job{job}); err == nil {
			t.ledger.Answered(key, answers[0].Run)
		}
	})
	caller.Wait()
	return err
}

var errExited = errors.New("the goroutine was ended")
