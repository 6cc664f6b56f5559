package contract_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// fill makes n records whose results have expired, a second apart, and whose
// identities are remembered for another hour.
func (b *bundle) fill(t *testing.T, n int) {
	t.Helper()
	b.exec(t, `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
		SELECT 'acme', 'create_ticket', i::text, decode(repeat('00', 32), 'hex'), 'done', '"secret"',
		       now() - interval '2 hours', now() - interval '1 hour' + i * interval '1 second', now() + interval '1 hour'
		  FROM generate_series(1, $1::int) i`, n)
}

func (b *bundle) forgetAll(t *testing.T) {
	t.Helper()
	b.exec(t, `UPDATE tool_dedup SET forget_at = expires_at`)
}

func sweepVariants(t *testing.T, run func(t *testing.T, v variant)) {
	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		t.Run(order.String(), func(t *testing.T) {
			t.Parallel()
			run(t, variant{order: order, isolation: pgx.ReadCommitted})
		})
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()

	t.Run("TombstonesThenDeletes", func(t *testing.T) {
		t.Parallel()
		sweepVariants(t, func(t *testing.T, v variant) {
			ctx, f := v.setup(t, nil)
			f.fill(t, 25)
			_, err := dedup.Do(ctx, f.d, call("fresh"), effect("fresh"))
			require.NoError(t, err)

			got, err := f.d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 10})
			require.NoError(t, err)
			require.Equal(t, dedup.SweepResult{Expired: 25, Batches: 3}, got)
			require.Equal(t, 1, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup WHERE result IS NOT NULL`))
			require.Zero(t, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup WHERE arg_digests IS NOT NULL AND key <> 'fresh'`))
			got, err = f.d.Sweep(ctx, nil)
			require.NoError(t, err)
			require.Equal(t, dedup.SweepResult{}, got)
			_, err = dedup.Do(ctx, f.d, dedup.Call{Scope: "acme", Tool: "create_ticket", Key: "1"}, effect("1"))
			require.Error(t, err)
			require.Zero(t, f.effects(t, "1"), "a tombstone refuses")

			f.exec(t, `UPDATE tool_dedup SET forget_at = expires_at WHERE key <> 'fresh'`)
			got, err = f.d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 10})
			require.NoError(t, err)
			require.Equal(t, dedup.SweepResult{Forgotten: 25, Batches: 3}, got)
			require.Equal(t, 1, f.records(t))

			swept := events[dedup.SweptData](f.events)
			require.Len(t, swept, 3)
			require.Equal(t, got, swept[2].SweepResult)
		})
	})

	t.Run("MaxBatches", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		f.fill(t, 25)
		f.forgetAll(t)
		got, err := f.d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 10, MaxBatches: 2})
		require.NoError(t, err)
		require.Equal(t, dedup.SweepResult{Forgotten: 20, Batches: 2}, got)
		require.Equal(t, []string{"21", "22", "23", "24", "25"}, keys(t, f.bundle), "the oldest went first")
	})

	t.Run("Options", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		for _, opts := range []dedup.SweepOptions{{BatchSize: -1}, {BatchSize: 100_001}, {MaxBatches: -1}, {Rest: 100.5}, {Rest: math.NaN()}} {
			_, err := f.d.Sweep(ctx, &opts)
			require.ErrorIs(t, err, dedup.ErrOptions)
			_, err = dedup.NewSweeper(f.d, &dedup.SweeperOptions{Sweep: opts})
			require.ErrorIs(t, err, dedup.ErrOptions)
		}
	})

	t.Run("ConcurrentIsSkipped", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		f.fill(t, 3)
		var inner dedup.SweepResult
		got, err := f.d.Sweep(ctx, &dedup.SweepOptions{Archive: func(context.Context, pgx.Tx, []dedup.SweptRecord) error {
			var err error
			inner, err = f.peer(t).Sweep(ctx, nil)
			return err
		}})
		require.NoError(t, err)
		require.True(t, inner.Skipped)
		require.Zero(t, inner.Expired)
		require.Equal(t, dedup.SweepResult{Expired: 3, Batches: 1}, got)
	})

	t.Run("ConcurrentSweepsTakeEachRecordOnce", func(t *testing.T) {
		t.Parallel()
		sweepVariants(t, func(t *testing.T, v variant) {
			ctx, f := v.setup(t, nil)
			f.exec(t, `CREATE TABLE archive (key text)`)
			f.fill(t, 60)
			f.forgetAll(t)
			results := make(chan int64, 4)
			for range 4 {
				d := f.peer(t)
				go func() {
					got, err := d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 7, Archive: archiveKeys})
					if err != nil {
						got.Forgotten = -1000
					}
					results <- got.Forgotten
				}()
			}
			var total int64
			for range 4 {
				total += receive(t, ctx, results)
			}
			rest, err := f.d.Sweep(ctx, &dedup.SweepOptions{Archive: archiveKeys})
			require.NoError(t, err)
			require.EqualValues(t, 60, total+rest.Forgotten)
			require.Equal(t, 60, scalar[int](t, f.bundle, `SELECT count(DISTINCT key) FROM archive`))
			require.Equal(t, 60, scalar[int](t, f.bundle, `SELECT count(*) FROM archive`))
		})
	})
}

// archiveKeys is an archive hook.
func archiveKeys(ctx context.Context, tx pgx.Tx, batch []dedup.SweptRecord) error {
	for _, r := range batch {
		if _, err := tx.Exec(ctx, `INSERT INTO archive VALUES ($1)`, r.Key); err != nil {
			return err
		}
	}
	return nil
}

func keys(t *testing.T, b *bundle) []string {
	t.Helper()
	all := scalar[[]string](t, b, `SELECT array_agg(key) FROM tool_dedup`)
	slices.Sort(all)
	return all
}

func TestSweepArchive(t *testing.T) {
	t.Parallel()

	t.Run("SeesWhatGoesAndIsCommittedWithIt", func(t *testing.T) {
		t.Parallel()
		sweepVariants(t, func(t *testing.T, v variant) {
			ctx, f := v.setup(t, nil)
			f.exec(t, `CREATE TABLE archive (key text)`)
			f.fill(t, 5)
			f.exec(t, `UPDATE tool_dedup SET forget_at = expires_at WHERE key = '1'`)
			var seen []dedup.SweptRecord
			got, err := f.d.Sweep(ctx, &dedup.SweepOptions{Archive: func(ctx context.Context, tx pgx.Tx, batch []dedup.SweptRecord) error {
				seen = append(seen, batch...)
				require.Equal(t, 5, f.records(t))
				return archiveKeys(ctx, tx, batch)
			}})
			require.NoError(t, err)
			require.Equal(t, dedup.SweepResult{Expired: 4, Forgotten: 1, Batches: 1}, got)
			require.Len(t, seen, 5)
			for _, r := range seen {
				require.Equal(t, "done", r.Outcome)
				require.JSONEq(t, `"secret"`, string(r.Result))
				require.Equal(t, r.Key == "1", r.Forgotten)
			}
			require.Equal(t, 5, scalar[int](t, f.bundle, `SELECT count(*) FROM archive`))
			require.Equal(t, 4, f.records(t))
		})
	})

	t.Run("ErrorKeepsTheBatch", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		f.exec(t, `CREATE TABLE archive (key text)`)
		f.fill(t, 25)
		f.forgetAll(t)
		batches := 0
		got, err := f.d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 10, Archive: func(ctx context.Context, tx pgx.Tx, batch []dedup.SweptRecord) error {
			if err := archiveKeys(ctx, tx, batch); err != nil {
				return err
			}
			if batches++; batches == 2 {
				return errPaper
			}
			return nil
		}})
		require.ErrorIs(t, err, errPaper)
		require.Equal(t, dedup.SweepResult{Forgotten: 10, Batches: 1}, got)
		require.Equal(t, 15, f.records(t))
		require.Equal(t, 10, scalar[int](t, f.bundle, `SELECT count(*) FROM archive`))
		swept := events[dedup.SweptData](f.events)
		require.Len(t, swept, 1)
		require.ErrorIs(t, swept[0].Err, errPaper)
	})

	// A record that is committed while the hook runs, and is due already: a
	// caller's transaction took longer than its result is kept.
	t.Run("NothingGoesUnseen", func(t *testing.T) {
		t.Parallel()
		sweepVariants(t, func(t *testing.T, v variant) {
			ctx, f := v.setup(t, nil)
			f.exec(t, `CREATE TABLE archive (key text)`)
			c := call("late")
			c.Retention = dedup.Retention{Result: time.Millisecond, Tombstone: -1}
			tx := f.begin(t, ctx)
			_, err := dedup.DoTx(ctx, f.d, tx, c, effect("late"))
			require.NoError(t, err)
			// A younger record sets the boundary of the batch.
			younger := c
			younger.Key = "younger"
			_, err = dedup.Do(ctx, f.d, younger, effect("younger"))
			require.NoError(t, err)
			f.eventually(t, `SELECT bool_and(forget_at <= now()) FROM tool_dedup`)

			got, err := f.peer(t).Sweep(ctx, &dedup.SweepOptions{MaxBatches: 1, Archive: func(ctx context.Context, sweep pgx.Tx, batch []dedup.SweptRecord) error {
				if err := tx.Commit(ctx); err != nil {
					return err
				}
				return archiveKeys(ctx, sweep, batch)
			}})
			require.NoError(t, err)
			archived := scalar[int](t, f.bundle, `SELECT count(*) FROM archive`)
			require.EqualValues(t, archived, got.Forgotten+got.Expired, "records that went without being archived")
			require.Equal(t, 2-archived, f.records(t))
		})
	})
}

func TestSweepNeverTouchesWhatCounts(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	for i := range 5 {
		_, err := dedup.Do(ctx, f.d, call(fmt.Sprint(i)), effect("k"))
		require.NoError(t, err)
	}
	got, err := f.d.Sweep(ctx, &dedup.SweepOptions{Archive: func(context.Context, pgx.Tx, []dedup.SweptRecord) error { return errPaper }})
	require.NoError(t, err)
	require.Equal(t, dedup.SweepResult{}, got)
	require.Equal(t, 5, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup WHERE result IS NOT NULL`))
}
