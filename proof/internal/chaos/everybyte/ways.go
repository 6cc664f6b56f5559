package everybyte

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
)

// told is what a caller is told of a key.
type told struct {
	key                 string
	run                 int64
	replayed, recovered bool
}

// way is one way to make calls. It makes those of one prefix and returns what it
// was told, or an error after which it is to be called again.
type way struct {
	name string
	// dedup is false for the control arm.
	dedup bool
	make  func(ctx context.Context, pool *pgxpool.Pool, d *dedup.Deduper, prefix string) ([]told, error)
}

var ways = []way{
	{"Do", true, func(ctx context.Context, _ *pgxpool.Pool, d *dedup.Deduper, prefix string) ([]told, error) {
		r, err := dedup.Do(ctx, d, call(prefix), lab.Run(prefix))
		return []told{{prefix, r.Value, r.Replayed, r.Recovered}}, err
	}},
	{"DoTx", true, func(ctx context.Context, pool *pgxpool.Pool, d *dedup.Deduper, prefix string) (answers []told, err error) {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			r, err := dedup.DoTx(ctx, d, tx, call(prefix), lab.Run(prefix))
			// A replay is this caller's own lost commit: nobody else calls.
			answers = []told{{prefix, r.Value, r.Replayed, r.Replayed}}
			return err
		})
		return answers, err
	}},
	{"DoStatement", true, func(ctx context.Context, _ *pgxpool.Pool, d *dedup.Deduper, prefix string) ([]told, error) {
		r, err := dedup.DoStatement[lab.Answer](ctx, d, call(prefix), dedup.SQL(lab.Effect, prefix))
		return []told{{prefix, r.Value.Run, r.Replayed, r.Recovered}}, err
	}},
	{"DoBatch", true, func(ctx context.Context, _ *pgxpool.Pool, d *dedup.Deduper, prefix string) (answers []told, err error) {
		var calls []dedup.StatementCall
		for i := range 3 {
			key := fmt.Sprintf("%s-%d", prefix, i)
			calls = append(calls, dedup.StatementCall{Call: call(key), Statement: dedup.SQL(lab.Effect, key)})
		}
		for o := range dedup.DoBatch[lab.Answer](ctx, d, slices.Values(calls), nil) {
			if o.Err != nil {
				return nil, o.Err
			}
			answers = append(answers, told{o.Call.Key, o.Result.Value.Run, o.Result.Replayed, o.Result.Recovered})
		}
		return answers, nil
	}},
}

// naive is the control arm: a transaction that is repeated after any error.
var naive = way{"without dedup", false, func(ctx context.Context, pool *pgxpool.Pool, _ *dedup.Deduper, prefix string) ([]told, error) {
	run, err := lab.RunNaively(ctx, pool, prefix)
	return []told{{key: prefix, run: run}}, err
}}

func call(key string) dedup.Call {
	return dedup.Call{Scope: "chaos", Tool: "effect", Key: key, Args: key}
}

func options() *dedup.Options {
	return &dedup.Options{Retry: dedup.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond}}
}
