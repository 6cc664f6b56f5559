package way

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// batchSize is how many calls a batch has.
const batchSize = 100

// call is the call with the key.
func call(key string) dedup.Call {
	return dedup.Call{Scope: Scope, Tool: Tool, Key: key, Args: args{Ref: key}}
}

// book is the effect as a function.
func book(ref string) dedup.Effect[row] {
	return func(ctx context.Context, tx pgx.Tx) (row, error) { return insert(ctx, tx, ref) }
}

// library is a way that calls the library with one key.
func library(name, title string, make func(ctx context.Context, d *dedup.Deduper, key string) error) Way {
	return Way{
		Name: name, Title: title, Batch: 1, Replays: true, OneKey: true, Prepare: createRecords,
		Open: withDeduper(func(ctx context.Context, d *dedup.Deduper, keys []string) error { return make(ctx, d, keys[0]) }),
	}
}

// Do is [dedup.Do].
func Do() Way {
	return library("do", "dedup.Do", func(ctx context.Context, d *dedup.Deduper, key string) error {
		_, err := dedup.Do(ctx, d, call(key), book(key))
		return err
	})
}

// DoLookFirst is [dedup.Do] with Call.LookFirst: one trip more for a first call,
// and one less for a replay.
func DoLookFirst() Way {
	return library("look-first", "dedup.Do, LookFirst", func(ctx context.Context, d *dedup.Deduper, key string) error {
		c := call(key)
		c.LookFirst = true
		_, err := dedup.Do(ctx, d, c, book(key))
		return err
	})
}

// DoTx is [dedup.DoTx] in a transaction of the caller's that holds nothing else.
func DoTx() Way {
	return library("dotx", "dedup.DoTx", func(ctx context.Context, d *dedup.Deduper, key string) error {
		return pgx.BeginFunc(ctx, d.Pool(), func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, d, tx, call(key), book(key))
			return err
		})
	})
}

// DoStatement is [dedup.DoStatement]: effect and record are one statement.
func DoStatement() Way {
	return library("statement", "dedup.DoStatement", func(ctx context.Context, d *dedup.Deduper, key string) error {
		_, err := dedup.DoStatement[row](ctx, d, call(key), dedup.SQL(effect, key))
		return err
	})
}

// DoBatch is [dedup.DoBatch]: many calls in one trip and one transaction.
func DoBatch() Way {
	return Way{
		Name: "batch", Title: fmt.Sprintf("dedup.DoBatch of %d", batchSize), Batch: batchSize, Replays: true,
		Prepare: createRecords, Open: withDeduper(doBatch),
	}
}

func doBatch(ctx context.Context, d *dedup.Deduper, keys []string) error {
	calls := func(yield func(dedup.StatementCall) bool) {
		for _, key := range keys {
			if !yield(dedup.StatementCall{Call: call(key), Statement: dedup.SQL(effect, key)}) {
				return
			}
		}
	}
	answered := 0
	for outcome := range dedup.DoBatch[row](ctx, d, calls, &dedup.BatchOptions{Size: batchSize}) {
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
