package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// planted are implementations that look right and are not. Each has one bug that
// real ones have had.
var planted = []struct {
	name string
	wrap func(client int) caller
}{
	{"look-up on the loser's snapshot", loserSnapshot},
	{"DO NOTHING and COMMIT in one pipeline", doNothingThenCommit},
	{"a lost COMMIT taken as safe to retry", trustsSafeToRetry},
	{"sweep by the client's clock", sweepsByOwnClock},
	{"cache before the fingerprint", cachesByKey},
}

const (
	lookUp = `SELECT fingerprint, result FROM tool_dedup WHERE scope = 'chaos' AND tool = 'effect' AND key = $1`
	write  = `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
VALUES ('chaos', 'effect', $1, $2, 'done', $3, now(), now() + interval '1 day', now() + interval '2 days')`
)

// textbook is the pattern of the textbooks: look up, run, write, commit. How it
// writes and ends is the caller's.
func textbook(ctx context.Context, c *lab.Client, in input, look bool, finish func(ctx context.Context, tx pgx.Tx, print []byte, run int64) (int64, error)) (run int64, err error) {
	print, err := dedup.FingerprintOf(in.variant)
	if err != nil {
		return 0, err
	}
	err = c.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if look {
			var there bool
			if run, there, err = found(tx.QueryRow(ctx, lookUp, in.key), print[:]); there || err != nil {
				return cmp.Or(err, errEnded)
			}
		}
		a, err := lab.Run(in.key)(ctx, tx)
		if err == nil {
			run, err = finish(ctx, tx, print[:], a.Run)
		}
		return cmp.Or(err, errEnded)
	})
	if errors.Is(err, errEnded) {
		err = nil
	}
	return run, err
}

// errEnded keeps [lab.Client.InTx] from the COMMIT of what has ended.
var errEnded = errors.New("the transaction has ended")

// found reads a record.
func found(row pgx.Row, print []byte) (run int64, found bool, err error) {
	var first []byte
	var result string
	switch err := row.Scan(&first, &result); {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case string(first) != string(print):
		return 0, true, dedup.ErrKeyReused
	}
	err = json.Unmarshal([]byte(result), &run)
	return run, true, err
}

// loserSnapshot inserts and looks up in one statement, in which a loser that had
// to wait sees neither its own row nor the winner's, and takes that for a first
// call.
func loserSnapshot(int) caller {
	return func(ctx context.Context, c *lab.Client, in input) (int64, error) {
		return textbook(ctx, c, in, true, func(ctx context.Context, tx pgx.Tx, print []byte, run int64) (int64, error) {
			row := tx.QueryRow(ctx, `WITH mine AS (`+write+` ON CONFLICT DO NOTHING RETURNING fingerprint, result)
SELECT fingerprint, result FROM mine UNION ALL `+lookUp, in.key, print, fmt.Sprint(run))
			winner, found, err := found(row, print)
			switch {
			case err != nil:
				return 0, err
			case found && winner != run:
				return winner, tx.Rollback(ctx)
			}
			return run, tx.Commit(ctx)
		})
	}
}

// doNothingThenCommit sends the record, which does nothing where there is one,
// and COMMIT together: a loser's effect is committed.
func doNothingThenCommit(int) caller {
	return func(ctx context.Context, c *lab.Client, in input) (int64, error) {
		return textbook(ctx, c, in, true, func(ctx context.Context, tx pgx.Tx, print []byte, run int64) (int64, error) {
			b := &pgx.Batch{}
			b.Queue(write+` ON CONFLICT DO NOTHING`, in.key, print, fmt.Sprint(run))
			b.Queue(`COMMIT`)
			return run, tx.SendBatch(ctx, b).Close()
		})
	}
}

// trustsSafeToRetry believes pgx that nothing has happened, and so has no need
// to look before it does it again.
func trustsSafeToRetry(int) caller {
	return func(ctx context.Context, c *lab.Client, in input) (int64, error) {
		look := true
		for {
			run, err := textbook(ctx, c, in, look, func(ctx context.Context, tx pgx.Tx, print []byte, run int64) (int64, error) {
				insert := write
				if !look {
					insert += ` ON CONFLICT (scope, tool, key) DO UPDATE SET result = EXCLUDED.result`
				}
				if _, err := tx.Exec(ctx, insert, in.key, print, fmt.Sprint(run)); err != nil {
					return 0, err
				}
				return run, tx.Commit(ctx)
			})
			//nolint:forbidigo // this is the bug
			if err == nil || !pgconn.SafeToRetry(err) || !look {
				return run, err
			}
			look = false
		}
	}
}

// sweepsByOwnClock is the library, and beside it a sweep that goes by a clock
// which is two months ahead.
func sweepsByOwnClock(client int) caller {
	right := withDedup(client)
	return func(ctx context.Context, c *lab.Client, in input) (int64, error) {
		run, err := right(ctx, c, in)
		if run%7 == 0 {
			_, _ = c.Pool.Exec(ctx, `DELETE FROM tool_dedup WHERE forget_at < $1`, time.Now().Add(60*24*time.Hour))
		}
		return run, err
	}
}

// cachesByKey is the library behind a cache that does not ask for the arguments.
func cachesByKey(client int) caller {
	right := withDedup(client)
	var mu sync.Mutex
	cache := map[string]int64{}
	return func(ctx context.Context, c *lab.Client, in input) (int64, error) {
		mu.Lock()
		run, ok := cache[in.key]
		mu.Unlock()
		if ok {
			return run, nil
		}
		run, err := right(ctx, c, in)
		if err == nil {
			mu.Lock()
			cache[in.key] = run
			mu.Unlock()
		}
		return run, err
	}
}
