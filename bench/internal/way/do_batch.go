package way

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup"
)

// batchSize is how many calls a batch has.
const batchSize = 100

// DoBatch is [dedup.DoBatch]: many calls in one trip and one transaction.
func DoBatch() Way {
	return Way{
		Name: "batch", Title: fmt.Sprintf("dedup.DoBatch of %d", batchSize), Batch: batchSize, Replays: true,
		Prepare: createRecords,
		Open: func(ctx context.Context, env Env) (Session, error) {
			s, err := newDeduper(ctx, env, nil)
			return doBatch{s}, err
		},
	}
}

type doBatch struct{ deduper }

func (s doBatch) Call(ctx context.Context, keys []string) error {
	calls := func(yield func(dedup.StatementCall) bool) {
		for _, key := range keys {
			if !yield(dedup.StatementCall{Call: call(key), Statement: dedup.SQL(effect, key)}) {
				return
			}
		}
	}
	answered := 0
	for outcome := range dedup.DoBatch[row](ctx, s.d, calls, &dedup.BatchOptions{Size: batchSize}) {
		if outcome.Err != nil {
			return fmt.Errorf("call %d of the batch: %w", outcome.Index, outcome.Err)
		}
		answered++
	}
	if answered != len(keys) {
		return fmt.Errorf("%d of %d calls were answered", answered, len(keys))
	}
	return nil
}
