// Package citus is the campaign on a Citus cluster: five ways to call, through all of its
// nodes, while answers to COMMIT are lost before the nodes and between them, two-phase
// commits are cut in the middle, backends are ended and nodes are restarted.
package citus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	workers = 32
	conns   = 8
	// blockKeys are the keys after which the books are settled.
	blockKeys = 1_000
	// maxTwins is the most deliveries of one key; one half has one.
	maxTwins   = 3
	answerWait = 250 * time.Millisecond
	// callWait bounds the first try, and a later one as many times as long: a node that restarts, or a
	// two-phase commit that is half done, holds calls up.
	callWait     = 20 * time.Second
	restartEvery = 15 * time.Second
	// endEvery is how often a backend of each node is ended, on average.
	endEvery     = 200 * time.Millisecond
	controlShare = 10
)

// Run runs the campaign in both layouts, one half of the calls each.
func Run(ctx context.Context, _ *lab.Lab, p lab.Params, s *lab.Score) error {
	urls := citusdb.URLs()
	if missing := citusdb.Missing(); missing != "" {
		return errors.New(missing)
	}
	for _, bySchema := range []bool{false, true} {
		a := &arm{p: p, s: s, dedup: true, bySchema: bySchema, ways: newWays()}
		err := a.run(ctx, urls, p.Calls/2)
		s.Enter(a.Arm)
		if err != nil {
			return err
		}
	}
	control := &arm{p: p, s: s}
	err := control.run(ctx, urls, max(p.Calls/controlShare, 1000))
	s.EnterControl(control.Arm)
	return err
}

// arm is a layout with dedup, or the control.
type arm struct {
	lab.Arm
	p               lab.Params
	s               *lab.Score
	dedup, bySchema bool
	clients         []*client
	ledgers         []*lab.Ledger // of the tenants; one for all where tables are shared
	books           []*pgxpool.Pool
	calls, runs     atomic.Int64
	ways            map[string]*atomic.Int64
}

func (a *arm) run(ctx context.Context, urls []string, calls int) error {
	c, err := create(ctx, urls, a.bySchema)
	if err != nil {
		return err
	}
	defer func() {
		if err := c.drop(ctx); err != nil {
			a.p.Sayf("dropping the database: %v", err)
		}
	}()
	a.s.Server = c.version
	if err := a.connect(ctx, c); err != nil {
		return err
	}
	defer func() {
		for _, client := range a.clients {
			client.pool.Close()
		}
		for _, pool := range a.books {
			pool.Close()
		}
	}()
	c.arm(a.p.Seed)
	disturbed, stop := context.WithCancel(ctx)
	var around sync.WaitGroup
	ended, restarts := c.disturb(disturbed, &around, restartEvery)
	defer func() { stop(); around.Wait() }()

	rng := rand.New(rand.NewPCG(a.p.Seed, 1))
	for block := 0; int(a.calls.Load()) < calls; block++ {
		a.deliverBlock(ctx, rng, block)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if a.Tally, err = a.settle(ctx, c); err != nil {
			return err
		}
		a.Calls = int(a.calls.Load())
		a.p.Sayf("%s: %d of %d calls, %d node restarts: %v", a.name(), a.Calls, calls, restarts.Load(), a.Tally)
	}
	stop()
	around.Wait()
	c.faults(&a.Arm)
	a.Fault("backends ended", int(ended.Load()))
	a.Fault("nodes restarted", int(restarts.Load()))
	if !a.dedup {
		return nil
	}
	for way, n := range a.ways {
		a.s.Details[a.name()+", "+way] = n.Load()
	}
	left, err := c.prepared(ctx)
	a.s.Details[a.name()+", two-phase commits half done at the end"] = left
	return err
}

func (a *arm) name() string {
	switch {
	case !a.dedup:
		return "control"
	case a.bySchema:
		return "a schema for each tenant"
	default:
		return "by scope"
	}
}

// connect opens the pools of the clients: two on each node, every third of them in the order
// claim first.
func (a *arm) connect(ctx context.Context, c *cluster) error {
	schemas := []string{"public"}
	if a.bySchema {
		schemas = nil
		for n := range tenants {
			schemas = append(schemas, tenant(n))
		}
	}
	for range schemas {
		a.ledgers = append(a.ledgers, lab.NewLedger())
	}
	for _, schema := range schemas {
		config := c.own[0].Config()
		config.ConnConfig.RuntimeParams["search_path"] = schema
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		a.books = append(a.books, pool)
	}
	for i := range 2 * len(c.clients) {
		pool, err := lab.OpenPool(ctx, c.clients[i%len(c.clients)].URL(), conns, pgx.QueryExecModeCacheStatement)
		if err != nil {
			return err
		}
		cl := &client{pool: pool}
		a.clients = append(a.clients, cl)
		for _, schema := range schemas {
			order := dedup.LockFirst
			if i%3 == 2 {
				order = dedup.ClaimFirst
			}
			one, err := lab.NewClient(pool, &dedup.Options{
				Schema: schema, Order: order, CommitTimeout: answerWait, IdleTimeout: 5 * time.Second,
				Retry: dedup.RetryPolicy{BaseDelay: 2 * time.Millisecond, MaxDelay: 200 * time.Millisecond},
			})
			if err != nil {
				return err
			}
			cl.bySchema = append(cl.bySchema, one)
		}
	}
	return nil
}

// settle compares the answers with the effects, while all is calm: what it removes must not
// be in doubt.
func (a *arm) settle(ctx context.Context, c *cluster) (tally lab.Tally, err error) {
	c.disturbing.Lock()
	defer c.disturbing.Unlock()
	c.calm.Store(true)
	defer c.calm.Store(false)
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	if err := c.complete(ctx); err != nil {
		return tally, fmt.Errorf("before settling the books: %w", err)
	}
	for i, ledger := range a.ledgers {
		if err := works(ctx, a.books[i]); err != nil {
			return tally, fmt.Errorf("before settling the books: %w", err)
		}
		one, err := ledger.Settle(ctx, a.books[i])
		if err != nil {
			return tally, fmt.Errorf("settling the books: %w", err)
		}
		tally.Add(one)
	}
	return tally, nil
}

// works waits until connections between the nodes that were cut are replaced: until all of the
// table can be locked.
func works(ctx context.Context, pool *pgxpool.Pool) error {
	for {
		_, err := pool.Exec(ctx, `BEGIN; SET LOCAL lock_timeout = '5s'; LOCK TABLE effects IN ACCESS EXCLUSIVE MODE; COMMIT`, pgx.QueryExecModeSimpleProtocol)
		if err == nil || ctx.Err() != nil {
			return err
		}
		pool.Reset()
		lab.Pause(ctx, 100*time.Millisecond)
	}
}

// deliverBlock delivers the calls of a block: a key at a time or several together, and twins
// at once through other nodes.
func (a *arm) deliverBlock(ctx context.Context, rng *rand.Rand, block int) {
	lab.Crowd(workers, func(yield func(func()) bool) {
		for i := 0; i < blockKeys && ctx.Err() == nil; {
			way := lab.Ways[rng.IntN(len(lab.Ways))]
			many := 1
			if way.Many {
				many = 2 + rng.IntN(3)
			}
			var keys []key
			at := rng.IntN(tenants)
			for range many {
				keys = append(keys, key{tenant: at, text: fmt.Sprintf("%d-%d", block, i)})
				if i++; !a.bySchema && rng.IntN(2) == 0 { // several shards in one transaction
					at = rng.IntN(tenants)
				}
			}
			twins := 1
			if rng.IntN(2) == 0 {
				twins = 2 + rng.IntN(maxTwins-1)
			}
			first := rng.IntN(len(a.clients))
			for t := range twins {
				d := &delivery{way: way, keys: keys, by: a.clients[(first+t)%len(a.clients)]}
				yield(func() { a.deliver(ctx, d) })
			}
		}
	})
}

// deliver calls again until there is an answer, as an orchestrator does.
func (a *arm) deliver(ctx context.Context, d *delivery) {
	a.calls.Add(int64(len(d.keys)))
	err := lab.Insist(ctx, func(ctx context.Context, n int) error {
		err := a.try(ctx, d, n)
		if errors.Is(err, dedup.ErrKeyReused) || errors.Is(err, dedup.ErrInvalid) || errors.Is(err, dedup.ErrBroken) {
			err = lab.Hopeless{Err: err}
		}
		return err
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	a.p.Sayf("%s without an answer: %v", d.way.Name, err)
	for _, k := range d.keys {
		a.ledger(k).Unanswered(k.text)
	}
}

func (a *arm) try(ctx context.Context, d *delivery, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n+1)*callWait)
	defer cancel()
	if !a.dedup {
		return a.naively(ctx, d)
	}
	answers, err := d.way.Make(ctx, a.client(d).Try(n), a.jobs(d))
	for _, t := range answers {
		a.ledger(d.keys[t.Job]).Answered(d.keys[t.Job].text, t.Run)
		a.ways[d.way.Name].Add(1)
	}
	return err
}

func (a *arm) ledger(k key) *lab.Ledger { return a.ledgers[k.tenant%len(a.ledgers)] }
