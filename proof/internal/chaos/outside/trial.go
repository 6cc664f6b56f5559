package outside

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// trial is one run of an arm.
type trial struct {
	arm  *arm
	form form
	ops  int
	seed uint64
	lab  *lab.Lab
	say  func(format string, args ...any)

	db       *lab.Database
	provider *provider
	workers  []*worker
	books    *books
	calm     atomic.Bool

	verdict  verdict
	judged   bool
	restarts map[string]int
	calling  time.Duration
	took     time.Duration
}

// open makes the database, the provider and the workers.
func (t *trial) open(ctx context.Context) (err error) {
	if t.db, err = t.lab.Create(ctx); err != nil {
		return err
	}
	if _, err = t.db.Pool.Exec(ctx, localSchema); err != nil {
		return err
	}
	if t.provider, err = startProvider(t.arm, t.form, t.seed); err != nil {
		return err
	}
	t.books = newBooks()
	return nil
}

func (t *trial) close(ctx context.Context) {
	for _, w := range t.workers {
		_ = w.leave()
	}
	if t.provider != nil {
		t.provider.close()
	}
	if t.db != nil {
		_ = t.db.Drop(ctx)
	}
}

// hire starts a worker process that calls every operation.
func (t *trial) hire(ctx context.Context, n, tries int) *worker {
	rng := rand.New(rand.NewPCG(t.seed, uint64(n)))
	w := &worker{
		n: n, books: t.books, rng: rng, calm: t.calm.Load, most: t.form.callers, tries: tries, todo: shuffled(t.ops, rng),
		hello: hello{
			URL: t.db.URL, Provider: t.provider.URL, Arm: t.arm.name, Lease: t.form.lease, Bound: t.form.bound, Conns: t.form.conns,
			Kill: t.form.kill, Pause: t.form.pause, Seed: t.seed + uint64(n)*1000,
		},
	}
	w.start(ctx)
	return w
}

// call has every operation called by every worker, under all faults.
func (t *trial) call(ctx context.Context) error {
	began, tries := time.Now(), tries
	if t.arm.keeps500 {
		tries = 1 // most operations are never answered before a person decides
	}
	for n := range workers {
		t.workers = append(t.workers, t.hire(ctx, n, tries))
	}
	outages, end := context.WithCancel(ctx)
	var breaking sync.WaitGroup
	if t.arm.outages {
		breaking.Go(func() {
			for pause := 1.0; lab.Pause(outages, leases(pause, t.form.lease)); pause = outage + betweenOutages {
				t.provider.breakDown()
			}
		})
	}
	defer breaking.Wait()
	defer end()
	err := awaitCalled(ctx, t.workers)
	t.calling = time.Since(began)
	return err
}

// settle waits in calm until nothing is due any more, has every operation called once
// more, and judges.
func (t *trial) settle(ctx context.Context) error {
	t.provider.calmDown()
	t.calm.Store(true)
	t.db.Pool.Reset() // its connections are dead
	if err := t.workers[1].leave(); err != nil {
		return err
	}
	t.workers = t.workers[:1]
	if err := t.drain(ctx); err != nil {
		return err
	}
	for _, w := range t.workers {
		if err := w.leave(); err != nil {
			return err
		}
	}
	t.workers = []*worker{t.hire(ctx, workers, lastTries)}
	if err := awaitCalled(ctx, t.workers); err != nil {
		return err
	}
	return t.judge(ctx)
}
