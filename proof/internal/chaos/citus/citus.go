// Package citus is the campaign on a Citus cluster. Clients call in five ways through all nodes.
// Answers to COMMIT are lost before the nodes and between them, two-phase commits are cut in the
// middle, backends are ended and nodes are restarted.
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

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	workers = 32
	conns   = 8
	// The books are settled after blockKeys keys.
	blockKeys = 1_000
	// maxTwins is the most deliveries of one key. Half of the keys have one delivery.
	maxTwins   = 3
	answerWait = 250 * time.Millisecond
	// callWait bounds the first try, and try n has n times as long. A restarting node or a
	// half-done two-phase commit holds calls up.
	callWait     = 20 * time.Second
	controlShare = 10
)

// Run runs the campaign in both layouts, with half of the calls in each.
func Run(ctx context.Context, _ *lab.Lab, p lab.Params, s *lab.Score) (err error) {
	if missing := citusdb.Missing(); missing != "" {
		return errors.New(missing)
	}
	if s.Server, err = citusdb.Version(ctx, citusdb.URLs()[0]); err != nil {
		return err
	}
	for _, a := range []*arm{
		{name: "by scope", calls: p.Calls / 2, ways: lab.Ways},
		{name: "a schema for each tenant", bySchema: true, calls: p.Calls / 2, ways: lab.Ways},
		{name: "control", calls: max(p.Calls/controlShare, 1000), ways: []lab.Way{lab.Plain}},
	} {
		a.answers, a.ledger, a.say = map[string]int{}, lab.NewLedger(), p.Sayf
		err := a.run(ctx, p.Seed)
		if a.name == "control" {
			s.EnterControl(a.Arm)
			return err
		}
		s.Enter(a.Arm)
		s.Details[a.name], s.Details[a.name+", two-phase commits half done at the end"] = a.answers, a.halfDone
		if err != nil {
			return err
		}
	}
	return nil
}

// arm is one layout with dedup, or the control.
type arm struct {
	lab.Arm
	name     string
	bySchema bool
	calls    int // wanted
	ways     []lab.Way
	clients  []client
	ledger   *lab.Ledger
	runs     atomic.Int64
	halfDone int // two-phase commits at the end
	say      func(format string, args ...any)

	mu      sync.Mutex
	answers map[string]int // by way
}

// client is one process: one library client for each schema. They share a pool on one node.
type client map[string]*lab.Client

func (a *arm) run(ctx context.Context, seed uint64) error {
	c, err := create(ctx, citusdb.URLs(), a.bySchema)
	if err != nil {
		return err
	}
	defer func() {
		if err := c.drop(ctx); err != nil {
			a.say("dropping the database: %v", err)
		}
	}()
	defer func() {
		for _, one := range a.clients {
			one[c.schema(0)].Pool.Close()
		}
	}()
	if err := a.connect(ctx, c); err != nil {
		return err
	}
	c.arm(seed)
	disturbed, stop := context.WithCancel(ctx)
	var around sync.WaitGroup
	ended, restarts := c.disturb(disturbed, &around)
	defer func() { stop(); around.Wait() }()

	rng := rand.New(rand.NewPCG(seed, 1))
	for block := 0; a.Calls < a.calls; block++ {
		a.deliverBlock(ctx, c, rng, block)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if a.Tally, err = c.settle(ctx, a.ledger); err != nil {
			return err
		}
		a.say("%s: %d of %d calls, %d node restarts: %v", a.name, a.Calls, a.calls, restarts.Load(), a.Tally)
	}
	stop()
	around.Wait()
	c.faults(&a.Arm)
	a.Fault("backends ended", int(ended.Load()))
	a.Fault("nodes restarted", int(restarts.Load()))
	a.halfDone, err = c.prepared(ctx)
	return err
}

// connect opens two clients on each node.
func (a *arm) connect(ctx context.Context, c *cluster) error {
	for i := range 2 * len(c.clients) {
		pool, err := lab.OpenPool(ctx, c.clients[i%len(c.clients)].URL(), conns, pgx.QueryExecModeCacheStatement)
		if err != nil {
			return err
		}
		one := client{}
		for _, schema := range c.schemas() {
			one[schema], err = lab.NewClient(pool, &dedup.Options{
				Schema: schema, CommitTimeout: answerWait, IdleTimeout: 5 * time.Second,
				Retry: dedup.RetryPolicy{BaseDelay: 2 * time.Millisecond, MaxDelay: 200 * time.Millisecond},
			})
			if err != nil {
				pool.Close()
				return err
			}
		}
		a.clients = append(a.clients, one)
	}
	return nil
}

// key is one intent of a tenant. Two tenants never share a key.
type key struct {
	tenant int
	text   string
}

// deliverBlock delivers the calls of a block, one key at a time or several together. Twins call at
// once through other nodes.
func (a *arm) deliverBlock(ctx context.Context, c *cluster, rng *rand.Rand, block int) {
	lab.Crowd(workers, func(yield func(func()) bool) {
		for i := 0; i < blockKeys && ctx.Err() == nil; {
			way := a.ways[rng.IntN(len(a.ways))]
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
				by := a.clients[(first+t)%len(a.clients)][c.schema(keys[0].tenant)]
				yield(func() { a.deliver(ctx, c, way, by, keys) })
				a.Calls += len(keys)
			}
		}
	})
}

// deliver repeats calls until they have answers, as an orchestrator does.
func (a *arm) deliver(ctx context.Context, c *cluster, way lab.Way, by *lab.Client, keys []key) {
	err := lab.Insist(ctx, func(ctx context.Context, n int) error {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(n+1)*callWait)
		defer cancel()
		answers, err := way.Make(ctx, by.Try(n), a.jobs(c, keys))
		a.mu.Lock()
		a.answers[way.Name] += len(answers)
		a.mu.Unlock()
		for _, t := range answers {
			a.ledger.Answered(keys[t.Job].text, t.Run)
		}
		if errors.Is(err, dedup.ErrKeyReused) || errors.Is(err, dedup.ErrInvalid) || errors.Is(err, dedup.ErrBroken) {
			err = lab.Hopeless{Err: err}
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		a.say("%s without an answer: %v", way.Name, err)
		for _, k := range keys {
			a.ledger.Unanswered(k.text)
		}
	}
}

// jobs returns the calls. Each answers with the number of its committed run.
func (a *arm) jobs(c *cluster, keys []key) []lab.Job {
	jobs := make([]lab.Job, len(keys))
	for i, k := range keys {
		jobs[i] = lab.Job{
			Call: dedup.Call{Scope: tenant(k.tenant), Tool: "effect", Key: k.text, Args: k.text},
			SQL:  `INSERT INTO ` + c.schema(k.tenant) + `.effects (tenant, key, run) VALUES ($1, $2, $3) RETURNING run`,
			Args: []any{tenant(k.tenant), k.text, a.runs.Add(1)},
		}
	}
	return jobs
}
