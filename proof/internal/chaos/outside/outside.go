// Package outside is the campaign of tools that act outside the database. Worker processes call
// operations of a provider that loses, delays and denies requests. The processes are killed and
// halted at the steps of package external, and the server is restarted under them. Then provider
// and workers are calm, and every operation is called once more. The provider's book is compared
// with the records and with the application's writes.
//
// arm.go has the arms, provider.go and faults.go the provider, fleet.go the workers. worker.go,
// step.go and tools.go are the inside of a worker. drain.go, judge.go and report.go are the end.
package outside

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// atOnce is the number of arms that run concurrently. An arm of the short form mostly waits for
// leases to end, so more of them fit.
const atOnce, shortAtOnce = 4, 8

// Run calls Params.Calls operations in each arm.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	var restarts lab.Arm
	both, ctx := errgroup.WithContext(ctx)
	trying, end := context.WithCancel(ctx)
	both.Go(func() error { return restartAgain(trying, l.Server, &restarts) })
	both.Go(func() error {
		defer end()
		return tryAll(ctx, l, p, s)
	})
	err := both.Wait()
	s.Enter(restarts)
	return err
}

// tryAll tries all arms.
func tryAll(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	var mu sync.Mutex // guards s and the fields below
	var problems []error
	crowd := atOnce
	if p.Short {
		crowd = shortAtOnce
	}
	lab.Crowd(crowd, func(yield func(func()) bool) {
		for i, a := range arms {
			if len(p.Arms) > 0 && !slices.Contains(p.Arms, a.Name) {
				continue
			}
			t := &trial{arm: a, ops: p.Calls, seed: p.Seed + uint64(i)*1000, lab: l, told: map[int]told{}, verdict: newVerdict()}
			if a.Control != right {
				t.ops = max(p.Calls/controlShare, min(p.Calls, controlLeast))
			}
			yield(func() {
				err := t.try(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					err = t.report(p, s)
				}
				if err != nil {
					problems = append(problems, fmt.Errorf("%s: %w", a.Name, err))
				}
			})
		}
	})
	return errors.Join(problems...)
}

// trial is one run of an arm.
type trial struct {
	arm  arm
	ops  int
	seed uint64
	lab  *lab.Lab

	began    time.Time
	db       *lab.Database
	provider *provider
	web      *httptest.Server // the provider's

	mu sync.Mutex // guards the fields below
	lab.Arm
	told    map[int]told // by operation
	verdict verdict
}

func (t *trial) try(ctx context.Context) error {
	defer t.close(ctx)
	for _, phase := range [...]func(context.Context) error{t.open, t.call, t.settle, t.judge} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open makes the database and the provider.
func (t *trial) open(ctx context.Context) error {
	t.began = time.Now()
	t.provider = newProvider(t.arm, t.seed, t.fault)
	mux := http.NewServeMux()
	mux.Handle("/charges", t.provider)
	mux.HandleFunc("POST /faults", func(_ http.ResponseWriter, r *http.Request) { t.fault(r.FormValue("kind")) })
	t.web = httptest.NewServer(mux)
	return lab.Insist(ctx, func(ctx context.Context, _ int) (err error) { // the server may be restarting
		if t.db == nil {
			t.db, err = t.lab.Create(ctx)
		}
		if err == nil {
			_, err = t.db.Pool.Exec(ctx, schema)
		}
		if err == nil && t.arm.Control == forgetsAttempts {
			_, err = t.db.Pool.Exec(ctx, forgetting)
		}
		return err
	})
}

func (t *trial) close(ctx context.Context) {
	t.web.Close()
	if t.db != nil {
		_ = t.db.Drop(ctx)
	}
}

// fault counts an applied fault.
func (t *trial) fault(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Fault(kind, 1)
}
