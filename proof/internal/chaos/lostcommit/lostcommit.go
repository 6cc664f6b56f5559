// Package lostcommit is the campaign that takes away the answer to COMMIT, in
// every way in which an answer can be lost, while twins of the same call come in
// through other processes' pools.
package lostcommit

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/proof/internal/chaos/score"
)

const (
	// clients are Dedupers that know nothing of each other, as those of so many
	// processes, each with a pool of its own.
	clients = 4
	conns   = 6
	// maxTwins is the most deliveries of one key; one half has one.
	maxTwins = 4
	// blockKeys are the keys after which the books are settled.
	blockKeys = 4_000
	workers   = 24
	// answerWait bounds the wait for an answer that was swallowed.
	answerWait = 250 * time.Millisecond
	// tries is how often a caller without an answer calls again.
	tries = 40
	// controlShare is the control arm's share of the calls.
	controlShare = 20
)

// Run runs the campaign with effects that write through pgx.
func Run(ctx context.Context, l *lab.Lab, p lab.Params) (*score.Score, error) {
	return run(ctx, l, p, "lost-commit", withDedup, withoutDedup)
}

// RunGorm runs it with effects that write through gorm.
func RunGorm(ctx context.Context, l *lab.Lab, p lab.Params) (*score.Score, error) {
	return run(ctx, l, p, "lost-commit-gorm", withGorm, withoutGorm)
}

func run(ctx context.Context, l *lab.Lab, p lab.Params, name string, with, without func(*pgxpool.Pool, *sql.DB) (caller, error)) (*score.Score, error) {
	s := &score.Score{Campaign: name, Seed: p.Seed, Server: l.Version, FaultsByKind: map[string]int{}}
	calls, faults, tally, err := arms(ctx, l, p, p.Calls, with)
	s.Calls, s.Tally = calls, tally
	for kind, n := range faults {
		s.FaultsByKind[string(kind)] = n
		s.Faults += n
	}
	if err != nil {
		return s, err
	}
	calls, faults, tally, err = arms(ctx, l, p, max(p.Calls/controlShare, 200), without)
	s.ControlCalls, s.Control = calls, tally
	for _, n := range faults {
		s.ControlFaults += n
	}
	return s, err
}

// caller makes one call through a pool and returns the effect's run.
type caller func(ctx context.Context, key string) (int64, error)

// withDedup is the library as its users have it.
func withDedup(pool *pgxpool.Pool, _ *sql.DB) (caller, error) { return do(pool, lab.Run) }

// do makes calls whose effects are those of effect.
func do(pool *pgxpool.Pool, effect func(key string) dedup.Effect[int64]) (caller, error) {
	d, err := dedup.New(pool, &dedup.Options{
		CommitTimeout: answerWait,
		Retry:         dedup.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: 50 * time.Millisecond},
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (int64, error) {
		result, err := dedup.Do(ctx, d, dedup.Call{Scope: "chaos", Tool: "effect", Key: key, Args: key}, effect(key))
		return result.Value, err
	}, nil
}

// withoutDedup is a transaction that is repeated after any error.
func withoutDedup(pool *pgxpool.Pool, _ *sql.DB) (caller, error) {
	return func(ctx context.Context, key string) (int64, error) {
		return lab.RunNaivelyWithin(ctx, pool, answerWait, key)
	}, nil
}

// arms delivers calls to one arm and settles its books.
func arms(ctx context.Context, l *lab.Lab, p lab.Params, calls int, wrap func(*pgxpool.Pool, *sql.DB) (caller, error)) (made int, faults map[faultproxy.Kind]int, tally score.Tally, err error) {
	db, err := l.Create(ctx)
	if err != nil {
		return 0, nil, tally, err
	}
	defer func() { _ = db.Drop(ctx) }()
	proxy, err := faultproxy.New(db.URL)
	if err != nil {
		return 0, nil, tally, err
	}
	defer proxy.Close()
	lab.ArmCommits(proxy, p.Seed)
	var callers []caller
	for range clients {
		pool, err := lab.OpenPool(ctx, proxy.URL(), conns, pgx.QueryExecModeCacheStatement)
		if err != nil {
			return 0, nil, tally, err
		}
		defer pool.Close()
		handle := stdlib.OpenDBFromPool(pool)
		defer func() { _ = handle.Close() }()
		call, err := wrap(pool, handle)
		if err != nil {
			return 0, nil, tally, err
		}
		callers = append(callers, call)
	}

	faults = map[faultproxy.Kind]int{}
	ledger := lab.NewLedger()
	rng := rand.New(rand.NewPCG(p.Seed, 1))
	for block := 0; made < calls; block++ {
		made += deliverBlock(ctx, rng, callers, ledger, block, calls-made)
		if ctx.Err() != nil {
			return made, faults, tally, ctx.Err()
		}
		if tally, err = ledger.Settle(ctx, db.Pool); err != nil {
			return made, faults, tally, err
		}
		total := 0
		maps.Copy(faults, addFaults(faults, proxy.Snapshot().Faults))
		for _, n := range faults {
			total += n
		}
		proxy.Reset()
		p.Sayf("%d of %d calls, %d faults: %d duplicates, %d lost, %d differing, %d unanswered", made, calls, total,
			tally.Duplicates, tally.Lost, tally.Differing, tally.Unanswered)
	}
	return made, faults, tally, nil
}

func addFaults(a, b map[faultproxy.Kind]int) map[faultproxy.Kind]int {
	sum := maps.Clone(a)
	for kind, n := range b {
		sum[kind] += n
	}
	return sum
}

// deliverBlock delivers the calls of a block, twins at once and to different
// clients, and returns how many.
func deliverBlock(ctx context.Context, rng *rand.Rand, callers []caller, ledger *lab.Ledger, block, left int) int {
	type delivery struct {
		key  string
		call caller
	}
	queue := make(chan delivery)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for d := range queue {
				deliver(ctx, d.call, d.key, ledger)
			}
		})
	}
	made := 0
	for i := 0; i < blockKeys && made < left && ctx.Err() == nil; i++ {
		key := fmt.Sprintf("%d-%d", block, i)
		twins := 1
		if rng.IntN(2) == 0 {
			twins = 2 + rng.IntN(maxTwins-1)
		}
		first := rng.IntN(len(callers))
		for t := range twins {
			queue <- delivery{key, callers[(first+t)%len(callers)]}
			made++
		}
	}
	close(queue)
	wg.Wait()
	return made
}

// deliver calls again until there is an answer, as an orchestrator does.
func deliver(ctx context.Context, call caller, key string, ledger *lab.Ledger) {
	for range tries {
		run, err := call(ctx, key)
		if err == nil {
			ledger.Answered(key, run)
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
	ledger.Unanswered(key)
}
