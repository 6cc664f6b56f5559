package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// fillOrdered makes n records like fill, a millisecond apart, with keys that are
// ordered by time as those of NewKey are.
func (b *bundle) fillOrdered(t *testing.T, n int) {
	t.Helper()
	b.exec(t, `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
		SELECT 'acme', 'create_ticket', '01890a5d-ac96-774b-bcce-' || lpad(i::text, 12, '0'), decode(repeat('00', 32), 'hex'), 'done', '"secret"',
		       now() - interval '2 days', now() - interval '1 hour' + i * interval '1 millisecond', now() + interval '1 hour'
		  FROM generate_series(1, $1::int) i`, n)
}

// watchSweeps keeps, after each statement of a sweep, what its transaction was
// like.
func (b *bundle) watchSweeps(t *testing.T) {
	t.Helper()
	b.exec(t, `CREATE TABLE watched (synchronous_commit text, seq_scans bigint)`)
	b.exec(t, `CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO watched SELECT current_setting('synchronous_commit'), seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'tool_dedup';
		RETURN NULL;
	END $$`)
	b.exec(t, `CREATE TRIGGER watch AFTER UPDATE OR DELETE ON tool_dedup FOR EACH STATEMENT EXECUTE FUNCTION watch()`)
}

// TestSweepGoesOn: a batch begins where the one before ended. Records that are
// due and stay are not looked at by every batch.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	sweepVariants(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, nil)
		f.fill(t, 25)
		f.exec(t, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
		f.exec(t, `CREATE TRIGGER hold BEFORE UPDATE ON tool_dedup FOR EACH ROW WHEN (OLD.key::int <= 5) EXECUTE FUNCTION hold()`)

		got, err := f.d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 10})
		require.NoError(t, err)
		require.Equal(t, dedup.SweepResult{Expired: 20, Batches: 3}, got)

		f.exec(t, `DROP TRIGGER hold ON tool_dedup`)
		got, err = f.d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 10})
		require.NoError(t, err)
		require.Equal(t, dedup.SweepResult{Expired: 5, Batches: 1}, got, "the next sweep begins at the oldest")
	})
}

// TestSweepReadsOnlyWhatIsDue: statistics are older than what is due, as they
// always are where time goes on. They make a batch look like the whole table.
func TestSweepReadsOnlyWhatIsDue(t *testing.T) {
	t.Parallel()

	for _, forget := range []bool{false, true} {
		t.Run(map[bool]string{false: "Expired", true: "Forgotten"}[forget], func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, nil)
			f.exec(t, `ALTER TABLE tool_dedup SET (autovacuum_enabled = false)`)
			f.fillOrdered(t, 20_000)
			f.exec(t, `UPDATE tool_dedup SET expires_at = expires_at - interval '1 day'`)
			f.exec(t, `ANALYZE tool_dedup`)
			f.exec(t, `UPDATE tool_dedup SET expires_at = expires_at + interval '1 day'`)
			if forget {
				f.forgetAll(t)
			}
			f.watchSweeps(t)

			// On a session of its own, which has no other scans to count.
			got, err := f.peer(t).Sweep(ctx, &dedup.SweepOptions{BatchSize: 100, MaxBatches: 10})
			require.NoError(t, err)
			require.EqualValues(t, 1000, got.Expired+got.Forgotten)
			require.Equal(t, 20, scalar[int](t, f.bundle, `SELECT count(*) FROM watched`))
			require.Zero(t, scalar[int](t, f.bundle, `SELECT max(seq_scans) FROM watched`))
		})
	}
}

// TestSweepCommit: a batch that nothing else was written with need not be on
// disk at once. One with an archive is as durable as the session's others.
func TestSweepCommit(t *testing.T) {
	t.Parallel()

	for _, archive := range []bool{false, true} {
		t.Run(map[bool]string{false: "Alone", true: "WithAnArchive"}[archive], func(t *testing.T) {
			t.Parallel()
			sweepVariants(t, func(t *testing.T, v variant) {
				ctx, f := v.setup(t, nil)
				f.exec(t, `CREATE TABLE archive (key text)`)
				f.fill(t, 3)
				f.watchSweeps(t)
				opts, want := &dedup.SweepOptions{}, "off"
				if archive {
					opts.Archive, want = archiveKeys, "on"
				}
				_, err := f.d.Sweep(ctx, opts)
				require.NoError(t, err)
				require.Equal(t, []string{want}, scalar[[]string](t, f.bundle, `SELECT array_agg(DISTINCT synchronous_commit) FROM watched`))
				for _, conn := range f.pool.AcquireAllIdle(ctx) {
					var left string
					require.NoError(t, conn.QueryRow(ctx, `SHOW synchronous_commit`, pgx.QueryExecModeSimpleProtocol).Scan(&left))
					require.Equal(t, "on", left)
					conn.Release()
				}
			})
		})
	}
}

// TestSweepLeavesThePrimaryKeyItsSize: the entries of tombstones find room in
// the pages of keys that are ordered by time.
func TestSweepLeavesThePrimaryKeyItsSize(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.fillOrdered(t, 10_000)
	const size = `SELECT pg_relation_size('tool_dedup_pkey')`
	before := scalar[int](t, f.bundle, size)

	got, err := f.d.Sweep(ctx, nil)
	require.NoError(t, err)
	require.EqualValues(t, 10_000, got.Expired)
	require.LessOrEqual(t, scalar[int](t, f.bundle, size), before*11/10)
}

// TestSweepRest: the sweep pauses between two batches, without a connection,
// and cancelling ends the pause.
func TestSweepRest(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.fill(t, 25)
	sweeping, stop := context.WithCancel(ctx)
	type ended struct {
		dedup.SweepResult
		err error
	}
	sweep := make(chan ended, 1)
	go func() {
		got, err := f.d.Sweep(sweeping, &dedup.SweepOptions{BatchSize: 10, Rest: 100, Archive: func(ctx context.Context, tx pgx.Tx, _ []dedup.SweptRecord) error {
			// A batch of a tenth of a second is followed by a rest of ten.
			_, err := tx.Exec(ctx, `DO $$ BEGIN WHILE clock_timestamp() < now() + interval '100 milliseconds' LOOP END LOOP; END $$`)
			return err
		}})
		sweep <- ended{got, err}
	}()
	f.eventually(t, `SELECT count(*) = 15 FROM tool_dedup WHERE result IS NOT NULL`)
	require.Eventually(t, func() bool { return f.pool.Stat().AcquiredConns() == 0 }, limit, time.Millisecond)
	stop()
	got := receive(t, ctx, sweep)
	require.ErrorIs(t, got.err, context.Canceled)
	require.Equal(t, dedup.SweepResult{Expired: 10, Batches: 1}, got.SweepResult)
	require.Equal(t, 15, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup WHERE result IS NOT NULL`))
}
