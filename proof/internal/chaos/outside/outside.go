package outside

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// controlShare is a control arm's share of the operations, and controlLeast how many
	// they are at least, where the other arms have that many.
	controlShare, controlLeast = 5, 120
	// atOnce is how many arms are tried at the same time in the short form.
	atOnce = 4
	// controlRate multiplies the provider's faults there.
	controlRate = 3
)

// Run calls Params.Calls operations in each arm.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	f := longForm
	if p.Short {
		f = shortForm
	}
	durable := l
	if !f.short {
		var err error
		if durable, err = lab.Open(ctx, &pgserver.Options{Private: true, Durable: true}); err != nil {
			return fmt.Errorf("starting a server with fsync: %w", err)
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
	return errors.Join(problems...)
}

// runGroup runs trials on one server at the same time, each phase of them together: the server is
// restarted for as long as any of them calls.
func runGroup(ctx context.Context, group []*trial) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
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
	if err := phase(func(t *trial) error { return t.open(ctx) }); err != nil {
		return err
	}
	restarting, calm := context.WithCancel(ctx)
	var restarts map[string]int
	var server sync.WaitGroup
	server.Go(func() {
		var err error
		if restarts, err = restartAgain(restarting, group[0].lab.Server, group[0].form.restartEvery); err != nil {
			cancel(err)
		}
	})
	err := phase(func(t *trial) error { return t.call(ctx) })
	calm()
	server.Wait()
	if err == nil {
		err = phase(func(t *trial) error { return t.settle(ctx) })
	}
	for _, t := range group {
		t.restarts, t.took = restarts, time.Since(began)
	}
	return err
}
