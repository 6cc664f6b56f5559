// Package storm is the campaign of many callers and few connections: storms of
// twins on one call, many tools at once, and calls inside of calls, on pools of 2
// to 8. Nobody may starve.
package storm

import (
	"context"
	"fmt"
	"slices"
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
	db, err := l.Create(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Drop(ctx) }()
	chosen := sizes
	if p.Short {
		chosen = []int32{2, 4}
	}
	for _, size := range chosen {
		a, p99, err := round(ctx, db, size)
		s.Enter(a)
		if err != nil {
			return fmt.Errorf("pool of %d: %w", size, err)
		}
		s.Details[fmt.Sprintf("p99_ms_pool_%d", size)] = p99.Seconds() * 1000
		p.Sayf("pool of %d: %d calls, p99 of others during the storm %v: %v", size, a.Calls, p99.Round(time.Millisecond), a.Tally)
	}
	a, err := control(ctx, db)
	s.EnterControl(a)
	return err
}

// round raises both storms on a pool of one size.
func round(ctx context.Context, db *lab.Database, size int32) (a lab.Arm, p99 time.Duration, err error) {
	client, err := lab.OpenClient(ctx, db.URL, size, pgx.QueryExecModeCacheStatement, nil)
	if err != nil {
		return a, 0, err
	}
	defer client.Pool.Close()
	starving, cancel := context.WithTimeout(ctx, lab.Patience) // a call that takes longer has starved
	defer cancel()
	c := &calls{d: client.D, ledger: lab.NewLedger()}
	p99 = c.twins(starving, fmt.Sprint(size))
	c.tools(starving, fmt.Sprint(size))
	a.Calls, a.Faults = c.made, map[string]int{"storm of twins": 1, "many tools": 1}
	if err = c.err; err == nil {
		a.Tally, err = c.ledger.Settle(ctx, db.Pool)
	}
	return a, p99, err
}

// calls makes calls and remembers the first error.
type calls struct {
	d      *dedup.Deduper
	ledger *lab.Ledger

	mu   sync.Mutex
	made int
	err  error
}

func (c *calls) make(ctx context.Context, tool, key string, effect dedup.Effect[lab.Answer]) {
	r, err := dedup.Do(ctx, c.d, dedup.Call{Scope: "chaos", Tool: tool, Key: key, Args: key}, effect)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	if err != nil {
		if c.err == nil {
			c.err = err
		}
		c.ledger.Unanswered(key)
		return
	}
	c.ledger.Answered(key, r.Value.Run)
}

// twins calls one key many times at once, and other keys while the effect runs.
// It returns what 99 of 100 of the others stayed below.
func (c *calls) twins(ctx context.Context, round string) time.Duration {
	key := round + "-storm"
	running := make(chan struct{})
	var once sync.Once
	var storm sync.WaitGroup
	for range twins {
		storm.Go(func() {
			c.make(ctx, "storm", key, func(ctx context.Context, tx pgx.Tx) (a lab.Answer, err error) {
				once.Do(func() { close(running) })
				if _, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, effectTime.Seconds()); err != nil {
					return a, err
				}
				return lab.Run(key)(ctx, tx)
			})
		})
	}
	over := make(chan struct{})
	go func() { storm.Wait(); close(over) }()
	var took []time.Duration
	select {
	case <-running:
	case <-over:
	}
	for n := 0; ; n++ {
		select {
		case <-over:
			if len(took) == 0 {
				return 0
			}
			slices.Sort(took)
			return took[len(took)*99/100]
		default:
		}
		start := time.Now()
		other := fmt.Sprintf("%s-other-%d", round, n)
		c.make(ctx, "other", other, lab.Run(other))
		took = append(took, time.Since(start))
	}
}

// tools calls many tools at once, each several times and each with a call of
// another tool in it.
func (c *calls) tools(ctx context.Context, round string) {
	var all sync.WaitGroup
	for t := range manyTools {
		key, inner := fmt.Sprintf("%s-tool-%d", round, t), fmt.Sprintf("%s-inner-%d", round, t)
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
func control(ctx context.Context, db *lab.Database) (a lab.Arm, err error) {
	ledger := lab.NewLedger()
	for range 8 {
		run, err := lab.Naively(ctx, &lab.Client{Pool: db.Pool}, "control")
		if err != nil {
			return a, err
		}
		ledger.Answered("control", run)
		a.Calls++
	}
	a.Fault("storm of twins", 1)
	a.Tally, err = ledger.Settle(ctx, db.Pool)
	return a, err
}
