// Package storm is the campaign of many callers and few connections: storms of
// twins on one call, many tools at once, and calls inside of calls, on pools of 2
// to 8. Nobody may starve.
package storm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// twins call one key at once, the effect of which takes so long.
	twins      = 200
	effectTime = 700 * time.Millisecond
	// manyTools are called at once by so many callers each.
	manyTools, callersEach = 60, 4
)

var sizes = []int32{2, 3, 4, 6, 8}

// Run runs the campaign. Params.Calls does not matter.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	chosen := sizes
	if p.Short {
		chosen = []int32{2, 4}
	}
	for _, size := range chosen {
		a, err := l.Try(ctx, p, lab.ByDo, func(ctx context.Context, t *lab.Trial) error { return raise(ctx, t, size) })
		s.Enter(a)
		if err != nil {
			return fmt.Errorf("pool of %d: %w", size, err)
		}
		p.Sayf("pool of %d: %d calls: %v", size, a.Calls, a.Tally)
	}
	a, err := l.Try(ctx, p, lab.Plain, control)
	s.EnterControl(a)
	return err
}

// raise raises both storms on a pool of one size.
func raise(ctx context.Context, t *lab.Trial, size int32) error {
	client, err := t.Client(ctx, size, pgx.QueryExecModeCacheStatement, nil)
	if err != nil {
		return err
	}
	starving, cancel := context.WithTimeout(ctx, lab.Patience) // a call that takes longer has starved
	defer cancel()
	c := &calls{Trial: t, d: client.D}
	c.twins(starving)
	c.tools(starving)
	t.Faults = map[string]int{"storm of twins": 1, "many tools": 1}
	if c.err == nil {
		t.Tally, c.err = t.Ledger.Settle(ctx, t.Pool)
	}
	return c.err
}

// calls makes calls and remembers the first error.
type calls struct {
	*lab.Trial
	d *dedup.Deduper

	mu  sync.Mutex
	err error
}

func (c *calls) make(ctx context.Context, tool, key string, effect dedup.Effect[lab.Answer]) {
	r, err := dedup.Do(ctx, c.d, dedup.Call{Scope: "chaos", Tool: tool, Key: key, Args: key}, effect)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Calls++
	if err != nil {
		if c.err == nil {
			c.err = err
		}
		c.Ledger.Unanswered(key)
		return
	}
	c.Ledger.Answered(key, r.Value.Run)
}

// twins calls one key many times at once, and other keys while the effect runs.
func (c *calls) twins(ctx context.Context) {
	const key = "storm"
	running := make(chan struct{})
	var once sync.Once
	var storm sync.WaitGroup
	for range twins {
		storm.Go(func() {
			defer once.Do(func() { close(running) })
			c.make(ctx, "storm", key, func(ctx context.Context, tx pgx.Tx) (a lab.Answer, err error) {
				once.Do(func() { close(running) })
				if _, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, effectTime.Seconds()); err != nil {
					return a, err
				}
				return lab.Run(key)(ctx, tx)
			})
		})
	}
	ended, end := context.WithCancel(ctx)
	go func() { storm.Wait(); end() }()
	<-running
	for n := 0; ended.Err() == nil; n++ {
		other := fmt.Sprintf("other-%d", n)
		c.make(ctx, "other", other, lab.Run(other))
	}
}

// tools calls many tools at once, each several times and each with a call of
// another tool in it.
func (c *calls) tools(ctx context.Context) {
	var all sync.WaitGroup
	for t := range manyTools {
		key, inner := fmt.Sprintf("tool-%d", t), fmt.Sprintf("inner-%d", t)
		for range callersEach {
			all.Go(func() {
				c.make(ctx, fmt.Sprintf("tool-%d", t), key, func(ctx context.Context, tx pgx.Tx) (a lab.Answer, err error) {
					call := dedup.Call{Scope: "chaos", Tool: "inner", Key: inner, Args: inner}
					if _, err := dedup.DoTx(ctx, c.d, tx, call, lab.Run(inner)); err != nil {
						return a, err
					}
					return lab.Run(key)(ctx, tx)
				})
			})
		}
	}
	all.Wait()
}

// control is a storm without dedup.
func control(ctx context.Context, t *lab.Trial) (err error) {
	for range 8 {
		run, err := t.Way.Call(ctx, &lab.Client{Pool: t.Pool}, "control")
		if err != nil {
			return err
		}
		t.Ledger.Answered("control", run)
		t.Calls++
	}
	t.Fault("storm of twins", 1)
	t.Tally, err = t.Ledger.Settle(ctx, t.Pool)
	return err
}
