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
	c := &campaign{counts: map[string]int{}}
	s.Details["ways"], s.Details["counts"] = len(ways), c.counts
	for _, mode := range chosen {
		c.mode = mode
		a, err := l.Try(ctx, p, lab.ByDo, c.run)
		s.Enter(a)
		if err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		p.Sayf("%s: %d ways, %d calls: %v", mode, len(ways), a.Calls, a.Tally)
	}
	c = &campaign{counts: map[string]int{}, mode: lab.Modes[0]}
	a, err := l.Try(ctx, p, lab.Plain, c.run)
	s.EnterControl(a)
	return err
}

// campaign is all ways to break a transaction in one mode.
type campaign struct {
	*lab.Trial
	mode   pgx.QueryExecMode
	client *lab.Client // of one way, on a pool of one connection
	counts map[string]int
}

// run tries all ways, in calls that are made by Do or without dedup.
func (c *campaign) run(ctx context.Context, t *lab.Trial) (err error) {
	c.Trial = t
	if _, err := t.Pool.Exec(ctx, procedures); err != nil {
		return err
	}
	for i, w := range ways {
		c.client, err = t.Client(ctx, 1, c.mode, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}})
		if err != nil {
			return err
		}
		t.Fault("abuse", 1)
		err = c.try(ctx, w, fmt.Sprint(i))
		c.client.Pool.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		// A server that takes prepared transactions keeps one, with its locks, where nobody guards.
		_, _ = t.Pool.Exec(ctx, `ROLLBACK PREPARED 'abuse'`)
	}
	t.Tally, err = t.Ledger.Settle(ctx, t.Pool)
	return err
}

// try makes the calls of one way: with the abuse, and then without, on the connection that it has left
// behind and by another client.
func (c *campaign) try(ctx context.Context, w way, key string) error {
	for n := range calls {
		abuse := &w
		if n >= calls-behaving {
			abuse = nil
		}
		err := c.call(ctx, callLimit, key, abuse)
		switch {
		case n > 0:
		case err == nil:
			c.counts["answered at once"]++
		default:
			c.counts["refused at once"]++
		}
	}
	if !c.Way.Dedup() {
		return nil
	}
	// The next call is served, at the latest on a new connection: what a SET without LOCAL leaves
	// behind stays on the old one, as it does without dedup.
	err := c.call(ctx, lab.Patience, key+"-after", nil)
	if err != nil {
		c.counts["spoiled connections"]++
		c.client.Pool.Reset()
		err = c.call(ctx, lab.Patience, key+"-after", nil)
	}
	if err != nil {
		return fmt.Errorf("the call after it: %w", err)
	}
	return nil
}

// call makes one call on a goroutine of its own, which it may end.
func (c *campaign) call(ctx context.Context, limit time.Duration, key string, abuse *way) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	job := lab.NewJob(key)
	if abuse != nil {
		w := &world{call: job.Call, cancel: cancel}
		if c.Way.Dedup() {
			w.d = c.client.D
		}
		job.Then = func(ctx context.Context, tx pgx.Tx) error { return abuse.do(ctx, tx, w) }
	}
	c.Calls++
	err = errExited
	var caller sync.WaitGroup
	caller.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
		}()
		var answers []lab.Told
		if answers, err = c.Way.Make(ctx, c.client, []lab.Job{job}); err == nil {
			c.Ledger.Answered(key, answers[0].Run)
		}
	})
	caller.Wait()
	return err
}

var errExited = errors.New("the goroutine was ended")
