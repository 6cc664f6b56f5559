// Package orders is the campaign that runs calls of one identity in every order of their round
// trips, with every fault at each trip, and with Resets and sweeps among them. Planted bugs show
// that each would be noticed.
package orders

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tooldedup/dedup/internal/faultproxy/schedule"
	"github.com/tooldedup/dedup/internal/orders"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// theatres is the number of mixes that run concurrently. Polling callers pause.
	theatres = 4
	// shortOrders is the number of orders that the short form draws for each mix.
	shortOrders = 10
)

// Run runs the campaign.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	counts, found := map[string]int{}, map[string]string{}
	s.Details = map[string]any{"orders": counts, "planted": found}
	for _, kind := range orders.Kinds() {
		if err := each(ctx, l, kind.Mixes, func(ctx context.Context, t *orders.Theatre, m orders.Mix) (lab.Arm, error) {
			count, a, err := play(ctx, p, t, m, p.Short, func(w *schedule.Wrong) bool { p.Sayf("%v: %v", m, w); return true })
			if err == nil {
				p.Sayf("%v: %d orders, %d trips, %d wrong", m, count.Orders, count.Trips, count.Wrong)
			}
			return a, err
		}, func(m orders.Mix, a lab.Arm) {
			counts[kind.Name] += a.Identities
			s.Enter(a)
		}); err != nil {
			return err
		}
	}
	for _, b := range bugs {
		if err := plant(ctx, l, p, s, b, found); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// plant plays a bug until its first sign, and in the long form to the end.
func plant(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score, b bug, found map[string]string) error {
	db, err := l.Create(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Drop(ctx) }()
	t, err := orders.Open(ctx, db.URL, b.Bug)
	if err != nil {
		return err
	}
	defer t.Close()
	var sign *schedule.Wrong
	count, a, err := play(ctx, p, t, b.mix, false, func(w *schedule.Wrong) bool {
		if sign == nil {
			sign = w
			p.Sayf("planted bug %q in %v: %v", b.name, b.mix, w)
		}
		return !p.Short
	})
	if found, is := errors.AsType[*schedule.Wrong](err); is && found == sign {
		err = nil
	}
	s.EnterControl(a)
	found[b.name] = fmt.Sprintf("%d of %d orders of %v", count.Wrong, count.Orders, b.mix)
	if err == nil && sign == nil {
		err = fmt.Errorf("it was not found in %d orders of %v", count.Orders, b.mix)
	}
	return err
}

// play plays a mix. Each order has its own identity. A wrong order counts as one differing answer.
func play(ctx context.Context, p lab.Params, t *orders.Theatre, m orders.Mix, draw bool, wrong func(*schedule.Wrong) bool) (count schedule.Count, a lab.Arm, err error) {
	if draw {
		count, err = t.Draw(ctx, m, p.Seed, shortOrders, wrong)
	} else {
		count, err = t.Explore(ctx, m, wrong)
	}
	a.Calls = count.Orders * len(m.Ways)
	a.Identities, a.Differing = count.Orders, count.Wrong
	for fault, n := range count.Faulty {
		a.Fault(string(fault), n)
	}
	return count, a, err
}

// each plays mixes concurrently, each in its own theatre.
func each(ctx context.Context, l *lab.Lab, mixes []orders.Mix, play func(context.Context, *orders.Theatre, orders.Mix) (lab.Arm, error), enter func(orders.Mix, lab.Arm)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan orders.Mix)
	var mu sync.Mutex
	var players sync.WaitGroup
	for range min(theatres, len(mixes)) {
		players.Go(func() {
			err := func() error {
				db, err := l.Create(ctx)
				if err != nil {
					return err
				}
				defer func() { _ = db.Drop(ctx) }()
				t, err := orders.Open(ctx, db.URL, orders.Bug{})
				if err != nil {
					return err
				}
				defer t.Close()
				for m := range next {
					a, err := play(ctx, t, m)
					mu.Lock()
					enter(m, a)
					mu.Unlock()
					if err != nil {
						return err
					}
				}
				return nil
			}()
			if err != nil {
				cancel(err)
			}
		})
	}
	for _, m := range mixes {
		select {
		case next <- m:
		case <-ctx.Done():
		}
	}
	close(next)
	players.Wait()
	return context.Cause(ctx)
}
