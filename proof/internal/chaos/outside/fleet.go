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
	// workers is how many an arm has. Each calls every operation.
	workers = 2
	// callers is how many calls each makes at once, on so many connections.
	callers, conns = 8, 4
	// tries is how often a worker calls an operation that it gets no answer of, under faults.
	tries = 3
)

// call has every operation called by every worker, under all faults, and kills the workers.
func (t *trial) call(ctx context.Context) error {
	tries := tries
	if t.arm.Keeps500 {
		tries = 1 // most operations are never answered before a person decides
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

// lockRows locks one row after the other that Finish and Refused write to, for up to twice as long as they may take.
func (t *trial) lockRows(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		_ = pgx.BeginFunc(ctx, t.db.Pool, func(tx pgx.Tx) error { // the server is restarted
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

// settle has one more worker do in calm what is due, and then call every operation once more, until it is
// answered.
func (t *trial) settle(ctx context.Context) error {
	t.provider.calmDown()
	w := t.hire(workers, true)
	defer w.seat.Kill()
	p, err := w.seat.Server()
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

// worker is one process after the other: each kills itself.
type worker struct {
	t    *trial
	seat lab.Seat
	rng  *rand.Rand
	web  http.Client
}

// hire returns worker n. One that is calm is not killed.
func (t *trial) hire(n int, calm bool) *worker {
	return &worker{
		t: t, seat: lab.Seat{
			Command: process.Command{Args: []string{workerName}},
			Task:    task{URL: t.db.URL, Provider: t.web.URL, Arm: t.arm, Number: n, Calm: calm},
		},
		rng: rand.New(rand.NewPCG(t.seed, uint64(n))), web: http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// callAll calls every operation, in an order of the worker's own.
func (w *worker) callAll(ctx context.Context, tries int) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(callers)
	for _, op := range w.rng.Perm(w.t.ops) {
		all.Go(func() error { return w.call(ctx, op+1, tries) })
	}
	return all.Wait()
}

var errUnsettled = errors.New("the outcome is not known yet")

// call calls an operation until it is answered, so often at most where tries is not 0. A call that was cut, because
// the process was killed, is made again.
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

// answered notes what a caller was told. That an operation is parked or unsettled may change.
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
