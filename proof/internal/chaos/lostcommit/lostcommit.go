// Package lostcommit is the campaign that takes away the answer to COMMIT, in
// every way in which an answer can be lost, while twins of the same call come in
// through other processes' pools.
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
	// clients are Dedupers that know nothing of each other, as those of so many
	// processes, each with a pool of its own.
	clients = 4
	conns   = 6
	// maxTwins is the most deliveries of one key; one half has one.
	maxTwins = 4
	// blockKeys are the keys after which the books are settled.
	blockKeys = 4_000
	workers   = 24
	// answerWait bounds the first wait for an answer that was swallowed.
	answerWait = 250 * time.Millisecond
	// controlShare is the control arm's share of the calls.
	controlShare = 20
)

// Run runs the campaign with effects that write through pgx.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(func(withDedup bool) (lab.Arm, error) {
		return arm(ctx, l, p, withDedup, func(*lab.Client) (lab.Caller, error) {
			if withDedup {
				return lab.Do, nil
			}
			return lab.Naively, nil
		})
	})
}

// arm delivers calls to one arm and settles its books.
func arm(ctx context.Context, l *lab.Lab, p lab.Params, withDedup bool, wrap func(*lab.Client) (lab.Caller, error)) (a lab.Arm, err error) {
	calls := p.Calls
	if !withDedup {
		calls = max(p.Calls/controlShare, 200)
	}
	db, err := l.CreateBehind(ctx, p.Seed, nil)
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
		call, err := wrap(c)
		if err != nil {
			return a, err
		}
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

// deliverBlock delivers the calls of a block, twins at once and to different
// clients, and returns how many.
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
