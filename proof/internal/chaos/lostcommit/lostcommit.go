// Package lostcommit is the campaign that loses the answer to COMMIT in every way, while twins make
// the same call through other processes' pools.
package lostcommit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// clients is the number of Dedupers. Each has its own pool, as in a process of its own.
	clients = 4
	conns   = 6
	// maxTwins is the most deliveries of one key. Half of the keys have one delivery.
	maxTwins = 4
	// The books are settled after blockKeys keys.
	blockKeys = 4_000
	workers   = 24
	// answerWait bounds the first wait for a swallowed answer.
	answerWait = 250 * time.Millisecond
	// controlShare is the control arm's share of the calls.
	controlShare = 20
)

// Run runs the campaign.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(func(withDedup bool) (lab.Arm, error) { return arm(ctx, l, p, withDedup) })
}

// arm delivers calls with dedup, or without it as the control, and settles the books.
func arm(ctx context.Context, l *lab.Lab, p lab.Params, withDedup bool) (a lab.Arm, err error) {
	calls, call := p.Calls, lab.Do
	if !withDedup {
		calls, call = max(p.Calls/controlShare, 200), lab.Naively
	}
	db, err := l.CreateBehind(ctx, p.Seed)
	if err != nil {
		return a, err
	}
	defer func() { _ = db.Drop(ctx) }()
	var callers []func(ctx context.Context, ledger *lab.Ledger, key string)
	for range clients {
		c, err := lab.OpenClient(ctx, db.Proxy.URL(), conns, pgx.QueryExecModeCacheStatement,
			&dedup.Options{CommitTimeout: answerWait, Retry: lab.Retry(50 * time.Millisecond)})
		if err != nil {
			return a, err
		}
		defer c.Pool.Close()
		callers = append(callers, func(ctx context.Context, ledger *lab.Ledger, key string) {
			_ = ledger.Deliver(ctx, c, call, key) // the ledger has it
		})
	}
	ledger := lab.NewLedger()
	rng := rand.New(rand.NewPCG(p.Seed, 1))
	for block := 0; a.Calls < calls; block++ {
		a.Calls += deliverBlock(ctx, rng, callers, ledger, block, calls-a.Calls)
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		if a.Tally, err = ledger.Settle(ctx, db.Pool); err != nil {
			return a, err
		}
		db.TakeFaults(&a)
		p.Sayf("%d of %d calls, %d faults: %v", a.Calls, calls, a.AllFaults(), a.Tally)
	}
	return a, nil
}

// deliverBlock delivers the calls of a block, twins concurrently and to different clients. It
// returns the number of calls.
func deliverBlock(ctx context.Context, rng *rand.Rand, callers []func(context.Context, *lab.Ledger, string), ledger *lab.Ledger, block, left int) (made int) {
	lab.Crowd(workers, func(yield func(func()) bool) {
		for i := 0; i < blockKeys && made < left && ctx.Err() == nil; i++ {
			key := fmt.Sprintf("%d-%d", block, i)
			twins := 1
			if rng.IntN(2) == 0 {
				twins = 2 + rng.IntN(maxTwins-1)
			}
			first := rng.IntN(len(callers))
			for t := range twins {
				yield(func() { callers[(first+t)%len(callers)](ctx, ledger, key) })
				made++
			}
		}
	})
	return made
}
