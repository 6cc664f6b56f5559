package contract_test

import (
	"context"
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

func TestSweep(t *testing.T) {
	t.Parallel()

	t.Run("TombstonesThenDeletes", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
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
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
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
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
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
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
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

// TestSweepArchiveThatMisbehaves: a hook that modifies the records it gets changes nothing, and if
// a hook ends the transaction no record is dropped.
func TestSweepArchiveThatMisbehaves(t *testing.T) {
	t.Parallel()

	for name, row := range map[string]struct {
		archive func(ctx context.Context, tx pgx.Tx, batch []dedup.SweptRecord) error
		left    []string
		err     error
	}{
		"ChangesTheBatch": {func(_ context.Context, _ pgx.Tx, batch []dedup.SweptRecord) error {
			for i := range batch {
				batch[i].Key = "live"
			}
			return nil
		}, []string{"live"}, nil},
		"RollsBack": {func(ctx context.Context, tx pgx.Tx, _ []dedup.SweptRecord) error {
			_, _ = tx.Exec(ctx, "ROLLBACK")
			return nil
		}, []string{"due", "live"}, dedup.ErrInvalid},
		"RollsBackThroughConn": {func(ctx context.Context, tx pgx.Tx, _ []dedup.SweptRecord) error {
			_, err := tx.Conn().Exec(ctx, "ROLLBACK")
			return err
		}, []string{"due", "live"}, dedup.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, nil)
			for _, key := range []string{"due", "live"} {
				_, err := dedup.Do(ctx, f.d, call(key), effect(key))
				require.NoError(t, err)
			}
			f.exec(t, `UPDATE tool_dedup SET expires_at = now() - interval '2 hours', forget_at = now() - interval '1 hour' WHERE key = 'due'`)
			got, err := f.d.Sweep(ctx, &dedup.SweepOptions{Archive: row.archive})
			require.ErrorIs(t, err, row.err)
			require.EqualValues(t, 2-len(row.left), got.Forgotten)
			require.ElementsMatch(t, row.left, keys(t, f.bundle))
		})
	}
}

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

// TestSweepReadsOnlyWhatIsDue: the statistics are older than the due records, as usual. By them a
// batch looks like the whole table.
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

			// A new session, so that its scans can be counted.
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
			bothOrders(t, func(t *testing.T, p profile) {
				ctx, f := p.setup(t, nil)
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

// TestSweepPassesWhatIsKept: something on the table, such as a legal hold, keeps records that are
// due. A batch begins where the one before ended, so that not every batch looks at them, and the
// sweep ends although they stay due. The next one begins at the oldest.
func TestSweepPassesWhatIsKept(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		event, when string
		records     int
		opts        dedup.SweepOptions
		want, next  dedup.SweepResult
	}{
		"Results":    {"UPDATE", "", 3, dedup.SweepOptions{}, dedup.SweepResult{Batches: 1}, dedup.SweepResult{Expired: 3, Batches: 1}},
		"Some":       {"UPDATE", "WHEN (OLD.key::int <= 5)", 25, dedup.SweepOptions{BatchSize: 10}, dedup.SweepResult{Expired: 20, Batches: 3}, dedup.SweepResult{Expired: 5, Batches: 1}},
		"Records":    {"DELETE", "", 3, dedup.SweepOptions{}, dedup.SweepResult{Batches: 1}, dedup.SweepResult{Forgotten: 3, Batches: 1}},
		"MaxBatches": {"DELETE", "", 25, dedup.SweepOptions{BatchSize: 1, MaxBatches: 2, Rest: -1}, dedup.SweepResult{Batches: 20}, dedup.SweepResult{Forgotten: 2, Batches: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothOrders(t, func(t *testing.T, p profile) {
				ctx, f := p.setup(t, nil)
				f.fill(t, c.records)
				if c.event == "DELETE" {
					f.forgetAll(t)
				}
				f.exec(t, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
				f.exec(t, `CREATE TRIGGER hold BEFORE `+c.event+` ON tool_dedup FOR EACH ROW `+c.when+` EXECUTE FUNCTION hold()`)
				got, err := f.d.Sweep(ctx, &c.opts)
				require.NoError(t, err)
				require.Equal(t, c.want, got)
				require.Equal(t, c.records, f.records(t))

				f.exec(t, `DROP TRIGGER hold ON tool_dedup`)
				got, err = f.d.Sweep(ctx, &c.opts)
				require.NoError(t, err)
				require.Equal(t, c.next, got)
			})
		})
	}
}

func TestSweeperRunsUntilItsContextEnds(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.fill(t, 3)
	sweeper, err := dedup.NewSweeper(f.d, &dedup.SweeperOptions{Interval: time.Millisecond})
	require.NoError(t, err)
	sweeping, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- sweeper.Run(sweeping) }()

	swept := func(n int) func([]any) bool {
		return func(all []any) bool { return len(ofType[dedup.SweptData](all)) >= n }
	}
	require.NoError(t, f.events.until(ctx, swept(3)))
	require.EqualValues(t, 3, events[dedup.SweptData](f.events)[0].Expired, "the first sweep is at once")

	// A sweep that fails is reported and does not end it.
	f.exec(t, `ALTER TABLE tool_dedup RENAME TO gone`)
	require.NoError(t, f.events.until(ctx, func(all []any) bool {
		data := ofType[dedup.SweptData](all)
		return data[len(data)-1].Err != nil
	}))
	f.exec(t, `ALTER TABLE gone RENAME TO tool_dedup`)
	f.forgetAll(t)
	f.eventually(t, `SELECT count(*) = 0 FROM tool_dedup`)

	stop()
	require.ErrorIs(t, receive(t, ctx, ended), context.Canceled)
}
