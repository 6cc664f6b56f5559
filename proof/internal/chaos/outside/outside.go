package outside

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/proof/internal/chaos/score"
)

const (
	// controlShare is a control arm's share of the operations, and controlLeast how many
	// they are at least, where the other arms have that many.
	controlShare, controlLeast = 5, 120
	// atOnce is how many arms are tried at the same time in the short form.
	atOnce = 10
	// controlRate multiplies the provider's faults there.
	controlRate = 3
)

// Run calls Params.Calls operations in each arm.
func Run(ctx context.Context, l *lab.Lab, p lab.Params) (*score.Score, error) {
	s := &score.Score{Campaign: "external", Seed: p.Seed, Server: l.Version, FaultsByKind: map[string]int{}, Details: map[string]any{}}
	for _, name := range p.Arms {
		if armOf(name) == nil {
			return nil, exit.Usage("there is no arm %q", name)
		}
	}
	f := longForm
	if p.Short {
		f = shortForm
	}
	durable := l
	if !f.short {
		var err error
		if durable, err = lab.Open(ctx, &pgserver.Options{Private: true, Durable: true}); err != nil {
			return s, fmt.Errorf("starting a server with fsync: %w", err)
		}
		defer func() { _ = durable.Close(ctx) }()
	}
	var trials []*trial
	for i := range arms {
		if len(p.Arms) > 0 && !slices.Contains(p.Arms, arms[i].name) {
			continue
		}
		t := &trial{arm: &arms[i], form: f, ops: p.Calls, seed: p.Seed + uint64(i)*1000, lab: l, say: p.Sayf}
		if t.arm.durable {
			t.lab = durable
		}
		if t.arm.control != right {
			t.ops = max(p.Calls/controlShare, min(p.Calls, controlLeast))
			t.form.rate = controlRate
		}
		trials = append(trials, t)
	}
	groups := slices.Collect(slices.Chunk(trials, 1))
	if f.short {
		groups = slices.Collect(slices.Chunk(trials, atOnce))
	}
	var problems []error
	for _, group := range groups {
		err := runGroup(ctx, group)
		for _, t := range group {
			t.enter(s)
			problems = append(problems, t.check())
		}
		problems = append(problems, err)
		if ctx.Err() != nil {
			break
		}
	}
	return s, errors.Join(problems...)
}

// runGroup runs trials at the same time, each phase of them together: the server is
// restarted for as long as any of them calls.
func runGroup(ctx context.Context, group []*trial) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	restarts, stop := restartServers(ctx, group, cancel)
	defer stop()
	phase := func(do func(*trial) error) error {
		var all sync.WaitGroup
		errs := make([]error, len(group))
		for i, t := range group {
			all.Go(func() {
				if err := do(t); err != nil {
					errs[i] = fmt.Errorf("%s: %w", t.arm.name, err)
				}
			})
		}
		all.Wait()
		return errors.Join(errs...)
	}
	defer func() {
		_ = phase(func(t *trial) error {
			t.close(context.WithoutCancel(ctx))
			return nil
		})
	}()
	err := phase(func(t *trial) error { return t.open(ctx) })
	if err == nil {
		restarts.begin()
		err = phase(func(t *trial) error { return t.call(ctx) })
	}
	stop()
	if err == nil {
		err = phase(func(t *trial) error { return t.settle(ctx) })
	}
	for _, t := range group {
		t.restarts = restarts.of(t.lab)
		t.took = time.Since(began)
	}
	return err
}
