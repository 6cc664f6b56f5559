package outside

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// workers is the number of workers of an arm. Each calls every operation.
	workers = 2
	// callers is the number of concurrent calls of a worker. It has a connection for each.
	callers, conns = 8, 4
	// tries is the number of times that a worker calls an unanswered operation under faults.
	tries = 3
)

// call has every worker call every operation under all faults, and kills the workers.
func (t *trial) call(ctx context.Context) error {
	tries := tries
	if t.arm.Keeps500 {
		tries = 1 // most operations get no answer before a person decides
	}
	all, ctx := errgroup.WithContext(ctx)
	locking, unlock := context.WithCancel(ctx)
	defer unlock()
	if t.arm.Locks {
		go t.lockRows(locking)
	}
	for n := range workers {
		w := t.hire(n, false)
		defer w.seat.Kill()
		all.Go(func() error { return w.callAll(ctx, tries) })
	}
	return all.Wait()
}

// lockRows locks the rows that Finish and Refused write to, in turn, for up to twice the time that
// these may take.
func (t *trial) lockRows(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		_ = pgx.BeginFunc(ctx, t.db.Pool, func(tx pgx.Tx) error { // the server may be restarting
			_, err := tx.Exec(ctx, `SELECT FROM balance WHERE account = $1 FOR UPDATE`, n%accounts)
			if err == nil {
				t.fault("row locked")
				lab.Pause(ctx, leases(1+float64(n%3)/2))
			}
			return err
		})
		lab.Pause(ctx, lease/10)
	}
}

// settle has one more worker do the work that is due, without faults, and then call every operation
// until it is answered.
func (t *trial) settle(ctx context.Context) error {
	t.provider.calmDown()
	w := t.hire(workers, true)
	defer w.seat.Kill()
	p, err := w.seat.Server()
	if err == nil && t.arm.Releases { // only the earlier release can read its results
		earlier := t.hire(0, true)
		defer earlier.seat.Kill()
		_, err = earlier.seat.Server()
	}
	if err == nil {
		err = t.drain(ctx)
	}
	if err == nil {
		err = w.callAll(ctx, 0)
	}
	if err == nil {
		p.Close(lab.Patience)
		err = p.Err()
	}
	return err
}

// worker is a seat for one process after the other. Each process kills itself.
type worker struct {
	t    *trial
	seat lab.Seat
	rng  *rand.Rand
	web  http.Client
}

// hire returns worker n. A calm worker is not killed.
func (t *trial) hire(n int, calm bool) *worker {
	return &worker{
		t: t, seat: lab.Seat{
			Command: process.Command{Args: []string{workerName}},
			Task:    task{URL: t.db.URL, Provider: t.web.URL, Arm: t.arm, Number: n, Calm: calm},
		},
		rng: rand.New(rand.NewPCG(t.seed, uint64(n))), web: http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// callAll calls every operation, in the worker's order.
func (w *worker) callAll(ctx context.Context, tries int) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(callers)
	for _, op := range w.rng.Perm(w.t.ops) {
		all.Go(func() error { return w.call(ctx, op+1, tries) })
	}
	return all.Wait()
}

var errUnsettled = errors.New("the outcome is not known yet")

// call repeats a call until it is answered, at most tries times unless tries is 0. A call that was
// cut by a kill does not count as a try.
func (w *worker) call(ctx context.Context, op, tries int) error {
	answered := 0
	return lab.Insist(ctx, func(ctx context.Context, _ int) error {
		addr, err := w.seat.Addr(ctx)
		if err != nil {
			return err
		}
		var a reply
		if err := fetch(ctx, &w.web, http.MethodPost, fmt.Sprintf("http://%s/?op=%d&try=%d", addr, op, answered), nil, &a); err != nil {
			return err
		}
		w.t.answered(op, a)
		if answered++; a.Outcome == unsettled && answered != tries {
			return errUnsettled
		}
		return nil
	})
}

// answered notes a caller's answer. A parked or unsettled operation may get another answer later.
func (t *trial) answered(op int, a reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Calls++
	switch a.Outcome {
	case happened, refused, undone:
		first, ok := t.told[op]
		if !ok {
			first = told{outcome: a.Outcome, id: a.ID}
		}
		first.differs = first.differs || first.outcome != a.Outcome || first.id != a.ID
		t.told[op] = first
	case unnamed:
		t.verdict.find(differing, "the callers of operation %d were told of a failure: %s", op, a.Error)
	}
}
