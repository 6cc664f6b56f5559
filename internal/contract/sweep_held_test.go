package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestSweepPassesWhatIsHeld: a caller's transaction holds forgotten records, and
// the sweep takes all others.
func TestSweepPassesWhatIsHeld(t *testing.T) {
	t.Parallel()

	for _, archive := range []bool{false, true} {
		t.Run(map[bool]string{false: "Alone", true: "WithAnArchive"}[archive], func(t *testing.T) {
			t.Parallel()
			bothOrders(t, func(t *testing.T, p profile) {
				ctx, f := p.setup(t, nil)
				f.exec(t, `CREATE TABLE archive (key text)`)
				f.fill(t, 40)
				f.forgetAll(t)
				tx := f.begin(t, ctx)
				for _, key := range []string{"3", "17", "18"} {
					c := call(key)
					c.Args = nil
					_, err := dedup.DoTx(ctx, f.d, tx, c, effect(key))
					require.NoError(t, err)
				}

				opts := &dedup.SweepOptions{BatchSize: 10, Rest: -1}
				if archive {
					opts.Archive = archiveKeys
				}
				got, err := f.peer(t).Sweep(ctx, opts)
				require.NoError(t, err)
				require.EqualValues(t, 37, got.Forgotten)
				require.Equal(t, []string{"17", "18", "3"}, keys(t, f.bundle))

				require.NoError(t, tx.Rollback(ctx))
				got, err = f.d.Sweep(ctx, opts)
				require.NoError(t, err)
				require.EqualValues(t, 3, got.Forgotten)
				if archive {
					require.Equal(t, 40, scalar[int](t, f.bundle, `SELECT count(DISTINCT key) FROM archive`))
				}
			})
		})
	}
}

// TestSweepPassesAHeldBatch: the oldest records are held, a batch of them. A sweep of one batch
// takes those behind it.
func TestSweepPassesAHeldBatch(t *testing.T) {
	t.Parallel()

	for name, archive := range map[string]func(context.Context, pgx.Tx, []dedup.SweptRecord) error{"Alone": nil, "WithAnArchive": archiveKeys} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothOrders(t, func(t *testing.T, p profile) {
				ctx, f := p.setup(t, nil)
				f.exec(t, `CREATE TABLE archive (key text)`)
				f.exec(t, `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
					SELECT 'acme', 'tool', n::text, '\x00', 'done', '1', now() - interval '3 days', now() - interval '2 days' + n * interval '1 s', now() - interval '1 day'
					  FROM generate_series(1, 9) n`)
				_, err := f.begin(t, ctx).Exec(ctx, `SELECT FROM tool_dedup WHERE key IN ('1', '2') FOR UPDATE`)
				require.NoError(t, err)

				got, err := f.peer(t).Sweep(ctx, &dedup.SweepOptions{BatchSize: 2, MaxBatches: 1, Rest: -1, Archive: archive})
				require.NoError(t, err)
				require.Equal(t, dedup.SweepResult{Forgotten: 2, Batches: 2}, got)
				require.Equal(t, []string{"1", "2", "5", "6", "7", "8", "9"}, keys(t, f.bundle))
			})
		})
	}
}

// TestSweepOfPartitions: records of several partitions lie at the same place in each, and one of
// them is held.
func TestSweepOfPartitions(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		f.partition(t)
		f.exec(t, `CREATE INDEX ON tool_dedup ((CASE WHEN result IS NULL THEN forget_at ELSE expires_at END))`)
		f.exec(t, `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
			SELECT 'tenant' || n % 40, 'tool', n::text, '\x00', 'done', '1', now() - interval '3 days', now() - interval '2 days' + n * interval '1 ms', now() - interval '1 day'
			  FROM generate_series(1, 200) n`)
		tx := f.begin(t, ctx)
		_, err := tx.Exec(ctx, `SELECT FROM tool_dedup WHERE key = '7' FOR UPDATE`)
		require.NoError(t, err)

		got, err := f.d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 50, Rest: -1})
		require.NoError(t, err)
		require.EqualValues(t, 199, got.Forgotten)
		require.Equal(t, []string{"7"}, keys(t, f.bundle))
	})
}

// TestSweepWaitsForALock: a lock on the table is taken for a moment, as by a call whose record
// makes it grow. The sweep goes on behind it.
func TestSweepWaitsForALock(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		f.fill(t, 3)
		f.forgetAll(t)
		tx := f.begin(t, ctx)
		_, err := tx.Exec(ctx, `LOCK TABLE tool_dedup IN SHARE MODE`)
		require.NoError(t, err)
		released := make(chan error, 1)
		go func() {
			_, err := tx.Exec(ctx, `DO $$ BEGIN
				WHILE NOT EXISTS (SELECT FROM pg_locks WHERE relation = 'tool_dedup'::regclass AND NOT granted) LOOP
					PERFORM pg_sleep(0.001);
				END LOOP;
				PERFORM pg_sleep(0.05);
			END $$`)
			released <- errors.Join(err, tx.Commit(ctx))
		}()
		got, err := f.peer(t).Sweep(ctx, &dedup.SweepOptions{Rest: -1})
		require.NoError(t, err)
		require.NoError(t, receive(t, ctx, released))
		require.EqualValues(t, 3, got.Forgotten)
	})
}

// TestSweepPassesALockedTable: another session holds the table's lock for a long time. The sweep
// ends, on a connection that pgx prepares statements on too. The tracer sees its statements.
func TestSweepPassesALockedTable(t *testing.T) {
	t.Parallel()

	for mode, statement := range map[string]string{"SHARE": "DELETE FROM", "ACCESS EXCLUSIVE": "LIMIT"} {
		for _, exec := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeSimpleProtocol} {
			for _, traced := range []bool{false, true} {
				t.Run(fmt.Sprint(mode, "/", exec, "/", traced), func(t *testing.T) {
					t.Parallel()
					tracer := &sqlTracer{}
					ctx, f := profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: exec}.setup(t, nil, func(c *pgxpool.Config) {
						if traced {
							c.ConnConfig.Tracer = tracer
						}
					})
					f.fill(t, 3)
					f.forgetAll(t)
					sweeper := f.peer(t)
					_, err := sweeper.Lookup(ctx, "acme", "create_ticket", "k") // examines the engine
					require.NoError(t, err)
					tx := f.beside(t)
					_, err = tx.Exec(ctx, `LOCK TABLE tool_dedup IN `+mode+` MODE`)
					require.NoError(t, err)
					got, err := sweeper.Sweep(ctx, &dedup.SweepOptions{Rest: -1})
					require.NoError(t, err)
					require.Equal(t, dedup.SweepResult{}, got)
					require.NoError(t, tx.Rollback(ctx))
					got, err = sweeper.Sweep(ctx, &dedup.SweepOptions{Rest: -1})
					require.NoError(t, err)
					require.EqualValues(t, 3, got.Forgotten)
					require.Equal(t, traced, strings.Contains(strings.Join(tracer.texts, "\n"), statement))
				})
			}
		}
	}
}

// TestFrozenSweeperHoldsNothing: a sweeper hangs between any two of its trips. A
// call that uses one of the forgotten identities anew does not notice.
func TestFrozenSweeperHoldsNothing(t *testing.T) {
	t.Parallel()

	for name, fault := range map[string]faultproxy.Fault{
		"BeforeItsDelete": {Kind: faultproxy.Hold, Where: faultproxy.AtSQL("DELETE FROM")},
		"BehindItsDelete": {Kind: faultproxy.Blackhole, Where: faultproxy.AtSQL("DELETE FROM")},
		"BeforeItsCommit": {Kind: faultproxy.Hold, Where: faultproxy.AtCommit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothOrders(t, func(t *testing.T, p profile) {
				ctx, f := p.setup(t, nil)
				f.fill(t, 10)
				f.forgetAll(t)
				proxy, pool := f.proxied(t)
				hung := proxy.Arm(withExecutes(fault))
				sweeping, stop := context.WithCancel(ctx)
				defer stop()
				swept := make(chan error, 1)
				sweeper := newDeduper(t, pool, &f.opts)
				go func() {
					_, err := sweeper.Sweep(sweeping, nil)
					swept <- err
				}()
				require.NoError(t, hung.Wait(ctx))
				if fault.Kind == faultproxy.Blackhole {
					f.eventually(t, `SELECT count(*) = 0 FROM tool_dedup`)
				}

				for _, key := range []string{"1", "10"} {
					c := call(key)
					c.MaxWait = -1
					got, err := dedup.Do(ctx, f.d, c, effect(key))
					require.NoError(t, err)
					require.Equal(t, 1, got.Attempts)
				}
				stop()
				require.Error(t, receive(t, ctx, swept))
				hung.Release()
			})
		})
	}
}

// withExecutes leaves out the units that only prepare a statement.
func withExecutes(fault faultproxy.Fault) faultproxy.Fault {
	where := fault.Where
	fault.Where = func(u faultproxy.Unit) bool { return len(u.Executes) > 0 && where(u) }
	return fault
}

// proxied is a pool behind a proxy, beside the fixture's own.
func (f *fixture) proxied(t *testing.T, conf ...func(*pgxpool.Config)) (*faultproxy.Proxy, *pgxpool.Pool) {
	t.Helper()
	proxy, err := faultproxy.New(f.db.URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	return proxy, f.db.Pool(t, append([]func(*pgxpool.Config){func(config *pgxpool.Config) {
		parsed, err := pgxpool.ParseConfig(proxy.URL())
		require.NoError(t, err)
		config.ConnConfig = parsed.ConnConfig
		trackCleanups(t, config)
	}}, conf...)...)
}

// TestFrozenArchive: a hook hangs, with its batch's rows locked. The server ends
// the transaction, and until then a call that uses one of the identities anew
// sees no twin, for there is none.
func TestFrozenArchive(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 10_000, BaseDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond}})
		f.fill(t, 10)
		f.forgetAll(t)
		entered, leave := make(chan struct{}), make(chan struct{})
		swept := make(chan error, 1)
		var idle string
		sweeper := f.peer(t, func(o *dedup.Options) { o.IdleTimeout = time.Hour })
		go func() {
			_, err := sweeper.Sweep(ctx, &dedup.SweepOptions{Archive: func(ctx context.Context, tx pgx.Tx, _ []dedup.SweptRecord) error {
				// Over in here alone, however slow the machine is.
				err := tx.QueryRow(ctx, `SELECT set_config(name, '1', true), setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'`).Scan(nil, &idle)
				close(entered)
				<-leave
				return err
			}})
			swept <- err
		}()
		receive(t, ctx, entered)
		c := call("3")
		c.MaxWait = -1
		got, err := dedup.Do(ctx, f.d, c, effect("3"))
		close(leave)
		require.NoError(t, err)
		require.False(t, got.Replayed)
		require.Error(t, receive(t, ctx, swept))
		require.Equal(t, "3600000", idle)
		require.Equal(t, 1, f.effects(t, "3"))
	})
}
