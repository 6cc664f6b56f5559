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
	"golang.org/x/sync/errgroup"

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
	// The control arm has one in controlShare of the calls, and no fewer than controlLeast.
	controlShare, controlLeast = 20, 200
)

// Run runs the campaign with effects that write through pgx.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(ctx, l, p, controlShare, controlLeast, func(ctx context.Context, t *lab.Trial) error {
		return deliver(ctx, t, func(*lab.Client) (lab.Caller, error) { return t.Way.Call, nil })
	})
}

// deliver delivers the calls of an arm, and settles its books after each block.
func deliver(ctx context.Context, t *lab.Trial, callerOf func(*lab.Client) (lab.Caller, error)) error {
	if err := t.Break(t.Params.Seed, nil); err != nil {
		return err
	}
	var at []func(key string) error
	for range clients {
		c, err := t.Client(ctx, conns, pgx.QueryExecModeCacheStatement, &dedup.Options{CommitTimeout: lab.AnswerWait, Retry: lab.Retry(50 * time.Millisecond)})
		if err != nil {
			return err
		}
		call, err := callerOf(c)
		if err != nil {
			return err
		}
		at = append(at, func(key string) error { return t.Ledger.Deliver(ctx, c, call, key) })
	}
	rng := rand.New(rand.NewPCG(t.Params.Seed, 1))
	for block := 0; t.Calls < t.Params.Calls; block++ {
		var all errgroup.Group
		all.SetLimit(workers)
		for i := 0; i < blockKeys && t.Calls < t.Params.Calls && ctx.Err() == nil; i++ {
			key, twins, first := fmt.Sprintf("%d-%d", block, i), lab.Twins(rng, maxTwins), rng.IntN(clients)
			for n := range twins {
				all.Go(func() error { return at[(first+n)%clients](key) })
			}
			t.Calls += twins
		}
		_ = all.Wait() // the ledger has it
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := t.Settle(ctx); err != nil {
			return err
		}
	}
	return nil
}
