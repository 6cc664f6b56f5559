package deduptest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
)

// A wrongTool has one mistake that occurs in practice.
type wrongTool struct {
	name string
	call func(context.Context, deduptest.Try) (any, error)
	// finds are the scenarios that must fail, and passes scenarios that the mistake cannot affect.
	// Only these run.
	finds, passes []deduptest.Scenario
	// says is a text in the failure of the first of finds.
	says string
}

func wrongs() []wrongTool {
	sequential := []deduptest.Scenario{deduptest.Repeated}
	concurrent := []deduptest.Scenario{deduptest.TwoAtOnce, deduptest.ManyAtOnce}
	// A Deduper that retries as in production hides these mistakes in all other scenarios.
	gaveUp := []deduptest.Scenario{deduptest.NotExecuted, deduptest.AnswerLost}
	undisturbed := []deduptest.Scenario{
		deduptest.Repeated, deduptest.OtherArguments, deduptest.Cancelled, deduptest.Panicked, deduptest.TwoAtOnce,
	}
	and := func(some []deduptest.Scenario, more ...deduptest.Scenario) []deduptest.Scenario {
		return slices.Concat(some, more)
	}
	return []wrongTool{
		{
			name: "no dedup at all",
			call: func(ctx context.Context, try deduptest.Try) (any, error) { return insertAlone(ctx, try) },
			finds: and(concurrent, deduptest.Repeated, deduptest.OtherArguments,
				deduptest.AnswerLost, deduptest.ProcessKilled),
			says: "effects instead of 1",
		},
		{
			name: "key minted per call",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				try.Key = dedup.NewKey()
				return do(ctx, try)
			},
			finds: and(sequential, concurrent...),
			says:  "3 effects instead of 1",
		},
		{
			name:   "effect through the pool",
			call:   throughThePool,
			finds:  []deduptest.Scenario{deduptest.NotExecuted, deduptest.Cancelled, deduptest.ProcessKilled},
			passes: and(concurrent, deduptest.Repeated, deduptest.OtherArguments),
			says:   "2 effects instead of 1",
		},
		{
			name: "swallowed error",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				answer, _ := do(ctx, try)
				return answer, nil
			},
			finds: []deduptest.Scenario{
				deduptest.Cancelled, deduptest.OtherArguments, deduptest.NotExecuted, deduptest.AnswerLost, deduptest.TwoAtOnce,
			},
			passes: sequential,
			says:   "answered without an error, and has no effect",
		},
		{
			name:   "swallowed error of COMMIT",
			call:   commitUnchecked,
			finds:  []deduptest.Scenario{deduptest.NotExecuted, deduptest.Cancelled},
			passes: and(sequential, deduptest.OtherArguments),
			says:   "answered without an error, and has no effect",
		},
		{
			name: "answered since the context has ended",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				answer, err := do(ctx, try)
				if ctx.Err() != nil {
					return ticket{}, nil
				}
				return answer, err
			},
			finds:  []deduptest.Scenario{deduptest.Cancelled},
			passes: and(gaveUp, deduptest.Repeated, deduptest.OtherArguments, deduptest.TwoAtOnce),
			says:   "answered without an error, and has no effect",
		},
		{
			name:   "second connection of the pool",
			call:   twoConnections,
			finds:  []deduptest.Scenario{deduptest.ManyAtOnce},
			passes: and(sequential, deduptest.OtherArguments, deduptest.AnswerLost, deduptest.TwoAtOnce),
			says:   "need a second connection",
		},
		{
			name: "new key while in flight",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				answer, err := do(ctx, try)
				if errors.Is(err, dedup.ErrInFlight) {
					try.Key = dedup.NewKey()
					return do(ctx, try)
				}
				return answer, err
			},
			finds:  []deduptest.Scenario{deduptest.TwoAtOnce},
			passes: sequential,
			says:   "another comes, by a Deduper that does not wait",
		},
		{
			name: "kept for seconds",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				call := callOf(try)
				call.Retention = dedup.Retention{Result: 20 * time.Second, Tombstone: -1}
				result, err := dedup.Do(ctx, try.Deduper, call, func(ctx context.Context, tx pgx.Tx) (ticket, error) {
					return insertTicket(ctx, tx, try)
				})
				return result.Value, err
			},
			finds:  []deduptest.Scenario{deduptest.Repeated},
			passes: []deduptest.Scenario{deduptest.TwoAtOnce},
			says:   "a record is forgotten after 20s",
		},
		{
			name: "done again since the answer is not kept",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				answer, err := doNotKept(ctx, try)
				if errors.Is(err, dedup.ErrExpired) {
					try.Key = dedup.NewKey()
					return doNotKept(ctx, try)
				}
				return answer, err
			},
			finds: and(sequential, deduptest.TwoAtOnce, deduptest.OtherArguments, deduptest.AnswerLost, deduptest.ProcessKilled),
			says:  "effects instead of 1",
		},
		{
			name: "answer made up since it is not kept",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				answer, err := doNotKept(ctx, try)
				if errors.Is(err, dedup.ErrExpired) {
					return ticket{}, nil
				}
				return answer, err
			},
			finds: []deduptest.Scenario{deduptest.Repeated, deduptest.TwoAtOnce},
			says:  "two callers get different answers",
		},
		{
			name: "kept answer withheld",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				result, err := dedup.Do(ctx, try.Deduper, callOf(try), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
					return insertTicket(ctx, tx, try)
				})
				if err == nil && result.Replayed {
					return nil, &dedup.Error{Kind: dedup.ErrExpired, CreatedAt: result.CreatedAt}
				}
				return result.Value, err
			},
			finds: and(sequential, deduptest.TwoAtOnce, deduptest.OtherArguments, deduptest.Panicked),
			says:  "a call fails with dedup.ErrExpired although its record has the answer",
		},
		{
			name: "random result",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				answer, err := do(ctx, try)
				return map[string]any{"ticket": answer, "receipt": rand.Int64()}, err
			},
			finds: []deduptest.Scenario{deduptest.Repeated, deduptest.TwoAtOnce, deduptest.ProcessKilled},
			says:  "two callers get different answers",
		},
		{
			name: "writes twice",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				result, err := dedup.Do(ctx, try.Deduper, callOf(try), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
					if _, err := insertTicket(ctx, tx, try); err != nil {
						return ticket{}, err
					}
					return insertTicket(ctx, tx, try)
				})
				return result.Value, err
			},
			finds: and(sequential, deduptest.NotExecuted, deduptest.ManyAtOnce),
			says:  "2 effects instead of 1",
		},
		{
			name: "arguments left out",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				call := callOf(try)
				call.Args = nil
				result, err := dedup.Do(ctx, try.Deduper, call, func(ctx context.Context, tx pgx.Tx) (ticket, error) {
					return insertTicket(ctx, tx, try)
				})
				return result.Value, err
			},
			finds: []deduptest.Scenario{deduptest.OtherArguments},
			passes: and(and(sequential, concurrent...), deduptest.NotExecuted, deduptest.AnswerLost, deduptest.Cancelled,
				deduptest.Panicked, deduptest.ProcessKilled),
			says: "want dedup.ErrKeyReused",
		},
		{
			name: "result not stored",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				var opened ticket
				_, err := dedup.Do(ctx, try.Deduper, callOf(try), func(ctx context.Context, tx pgx.Tx) (_ struct{}, err error) {
					opened, err = insertTicket(ctx, tx, try)
					return struct{}{}, err
				})
				return opened, err
			},
			finds: and(sequential, deduptest.TwoAtOnce, deduptest.ProcessKilled),
			says:  "two callers get different answers",
		},
		{
			name:  "unique index and no answer",
			call:  uniqueOnly,
			finds: and(sequential, concurrent...),
			says:  "still fails when nothing disturbs it any more",
		},
		{
			name:   "remembered in the process",
			call:   fromMemory,
			finds:  []deduptest.Scenario{deduptest.ProcessKilled, deduptest.TwoAtOnce},
			passes: and(sequential, deduptest.NotExecuted),
			says:   "2 effects instead of 1",
		},
		{
			name:   "remembered beside the Deduper",
			call:   fromMemoryOfDeduper,
			finds:  and(concurrent, deduptest.ProcessKilled),
			passes: []deduptest.Scenario{deduptest.Repeated, deduptest.NotExecuted},
			says:   "effects instead of 1",
		},
		{
			name: "looked up, then written",
			call: lookedUp,
			// ManyAtOnce finds it only if two callers look before the first one commits.
			finds:  []deduptest.Scenario{deduptest.TwoAtOnce, deduptest.OtherArguments},
			passes: and(sequential, deduptest.NotExecuted, deduptest.ProcessKilled),
			says:   "effects instead of 1",
		},
		{
			name: "swallowed panic",
			call: func(ctx context.Context, try deduptest.Try) (answer any, err error) {
				defer func() {
					if recover() != nil {
						answer = ticket{}
					}
				}()
				return do(ctx, try)
			},
			finds:  []deduptest.Scenario{deduptest.Panicked},
			passes: and(sequential, deduptest.OtherArguments, deduptest.Cancelled),
			says:   "answered without an error, and has no effect",
		},
		{
			name: "retried with another key",
			call: func(ctx context.Context, try deduptest.Try) (any, error) {
				answer, err := doTx(ctx, try)
				if err != nil {
					try.Key += "-again"
					return doTx(ctx, try)
				}
				return answer, err
			},
			finds:  []deduptest.Scenario{deduptest.AnswerLost, deduptest.OtherArguments},
			passes: sequential,
			says:   "2 effects instead of 1",
		},
		{
			name:   "key minted per retry",
			call:   retriedWithNewKey,
			finds:  and(gaveUp, deduptest.TwoAtOnce),
			passes: undisturbed[:len(undisturbed)-1],
			says:   "with a Deduper that makes one attempt: two callers get different answers; 2 effects instead of 1",
		},
		{
			name:   "unknown outcome told as success",
			call:   madeUp,
			finds:  gaveUp,
			passes: undisturbed,
			says:   "with a Deduper that makes one attempt: the call is answered without an error, and has no effect in the database",
		},
	}
}

func retriedWithNewKey(ctx context.Context, try deduptest.Try) (any, error) {
	answer, err := do(ctx, try)
	for i := 0; i < 3 && dedup.IsRetryable(err) && ctx.Err() == nil; i++ {
		try.Key = dedup.NewKey()
		answer, err = do(ctx, try)
	}
	return answer, err
}

func madeUp(ctx context.Context, try deduptest.Try) (any, error) {
	answer, err := do(ctx, try)
	if errors.Is(err, dedup.ErrOutcomeUnknown) || errors.Is(err, dedup.ErrAttemptsExhausted) {
		return ticket{}, nil
	}
	return answer, err
}

func doNotKept(ctx context.Context, try deduptest.Try) (any, error) {
	call := callOf(try)
	call.Retention.Result = -1
	result, err := dedup.Do(ctx, try.Deduper, call, func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		return insertTicket(ctx, tx, try)
	})
	return result.Value, err
}

func insertAlone(ctx context.Context, try deduptest.Try) (opened ticket, err error) {
	err = pgx.BeginFunc(ctx, try.Pool, func(tx pgx.Tx) error {
		opened, err = insertTicket(ctx, tx, try)
		return err
	})
	return opened, err
}

func throughThePool(ctx context.Context, try deduptest.Try) (any, error) {
	result, err := dedup.Do(ctx, try.Deduper, callOf(try), func(ctx context.Context, _ pgx.Tx) (ticket, error) {
		return insertAlone(ctx, try)
	})
	return result.Value, err
}

func commitUnchecked(ctx context.Context, try deduptest.Try) (any, error) {
	tx, err := try.Pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	result, err := dedup.DoTx(ctx, try.Deduper, tx, callOf(try), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		return insertTicket(ctx, tx, try)
	})
	if err != nil {
		return nil, err
	}
	_ = tx.Commit(ctx)
	return result.Value, nil
}

func uniqueOnly(ctx context.Context, try deduptest.Try) (opened any, err error) {
	err = pgx.BeginFunc(ctx, try.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO seen (key) VALUES ($1)`, try.Key); err != nil {
			return err
		}
		opened, err = insertTicket(ctx, tx, try)
		return err
	})
	return opened, err
}

// memory is the answers that the process remembers.
var memory = struct {
	sync.Mutex
	answers map[string]any
}{answers: map[string]any{}}

func fromMemory(ctx context.Context, try deduptest.Try) (any, error) {
	memory.Lock()
	defer memory.Unlock()
	if answer, ok := memory.answers[try.Key]; ok {
		return answer, nil
	}
	answer, err := insertAlone(ctx, try)
	if err == nil {
		memory.answers[try.Key] = answer
	}
	return answer, err
}

// memories has a memory for each Deduper: it stops concurrent calls but writes no record.
var memories sync.Map

func fromMemoryOfDeduper(ctx context.Context, try deduptest.Try) (any, error) {
	type place struct {
		d   *dedup.Deduper
		key string
	}
	type answered struct {
		sync.Mutex
		answer any
	}
	kept, _ := memories.LoadOrStore(place{try.Deduper, try.Key}, &answered{})
	memory := kept.(*answered)
	memory.Lock()
	defer memory.Unlock()
	if memory.answer != nil {
		return memory.answer, nil
	}
	answer, err := insertAlone(ctx, try)
	if err == nil {
		memory.answer = answer
	}
	return answer, err
}

func lookedUp(ctx context.Context, try deduptest.Try) (any, error) {
	var found ticket
	err := pgx.BeginFunc(ctx, try.Pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT id, title FROM tickets WHERE key = $1`, try.Key).Scan(&found.ID, &found.Title)
		if errors.Is(err, pgx.ErrNoRows) {
			found, err = insertTicket(ctx, tx, try)
		}
		return err
	})
	return found, err
}
