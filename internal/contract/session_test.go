package contract_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// accented is a key that other encodings than UTF8 make another one of.
const accented = "Rechnung-Zürich"

// execModes are those in which pgx sends a text.
var execModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// TestSession: a session that speaks another client_encoding would store keys as
// other characters and run their twins again.
func TestSession(t *testing.T) {
	t.Parallel()

	t.Run("LeftBehind", func(t *testing.T) {
		t.Parallel()
		for _, mode := range execModes {
			t.Run(mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, f := variant{mode: mode, isolation: pgx.ReadCommitted}.setup(t, nil, poolOfOne)
				f.exec(t, `SET client_encoding = 'LATIN1'`) // an import that forgot to RESET
				e := &tool{ref: "k"}
				_, err := dedup.Do(ctx, f.d, call(accented), e.run)
				require.NoError(t, err)
				f.exec(t, `SET client_encoding = 'LATIN1'`)
				status, err := f.d.Lookup(ctx, "acme", "create_ticket", accented)
				require.NoError(t, err)
				require.Equal(t, dedup.StateDone, status.State)

				again, err := dedup.Do(ctx, newDeduper(t, f.db.Pool(t), nil), call(accented), e.run)
				require.NoError(t, err)
				require.True(t, again.Replayed)
				require.Equal(t, 1, f.effects(t, "k"))
				require.Equal(t, []string{accented}, keys(t, f.bundle))
			})
		}
	})

	// New connections are no better: that ends, and says why.
	t.Run("Configured", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil, func(config *pgxpool.Config) {
			config.ConnConfig.RuntimeParams["client_encoding"] = "LATIN1"
		})
		e := &tool{ref: "k"}
		_, err := dedup.Do(ctx, f.d, call("k"), e.run)
		require.ErrorContains(t, err, "client_encoding")
		_, err = f.d.Lookup(ctx, "acme", "create_ticket", "k")
		require.ErrorContains(t, err, "client_encoding")
		e.requireRuns(t, 0)
	})

	t.Run("InTheEffect", func(t *testing.T) {
		t.Parallel()
		for _, mode := range execModes {
			for name, set := range map[string]string{
				"Set":      `SET client_encoding = 'LATIN1'`,
				"SetLocal": `SET LOCAL client_encoding = 'LATIN1'`,
			} {
				t.Run(mode.String()+"/"+name, func(t *testing.T) {
					t.Parallel()
					ctx, f := variant{mode: mode, isolation: pgx.ReadCommitted}.setup(t, nil, poolOfOne)
					e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, run int) error {
						if run > 1 {
							return nil
						}
						_, err := tx.Exec(ctx, set)
						return err
					}}
					_, err := dedup.Do(ctx, f.d, call(accented), e.run)
					require.ErrorContains(t, err, "client_encoding")
					require.Zero(t, f.effects(t, "k"))
					require.Zero(t, f.records(t))

					_, err = dedup.Do(ctx, f.d, call(accented), e.run)
					require.NoError(t, err)
					require.Equal(t, []string{accented}, keys(t, f.bundle))
				})
			}
		}
	})

	t.Run("CallersTx", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		tx := f.begin(t, ctx)
		_, err := tx.Exec(ctx, `SET LOCAL client_encoding = 'LATIN1'`)
		require.NoError(t, err)
		e := &tool{ref: "k"}
		_, err = dedup.DoTx(ctx, f.d, tx, call(accented), e.run)
		var invalid *dedup.InvalidCallError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "tx", invalid.Field)
		e.requireRuns(t, 0)

		_, err = tx.Exec(ctx, `SET LOCAL client_encoding = 'UTF8'`)
		require.NoError(t, err)
		_, err = dedup.DoTx(ctx, f.d, tx, call(accented), e.run)
		require.NoError(t, err)
		require.NoError(t, tx.Commit(ctx))
		require.Equal(t, []string{accented}, keys(t, f.bundle))
	})

	t.Run("EffectInCallersTx", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, v variant) {
			ctx, f := v.setup(t, nil)
			tx := f.begin(t, ctx)
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				_, err := tx.Exec(ctx, `SET client_encoding = 'LATIN1'`)
				return err
			}}
			_, err := dedup.DoTx(ctx, f.d, tx, call(accented), e.run)
			require.ErrorContains(t, err, "client_encoding")
			requireUsable(t, ctx, tx)
			_, err = dedup.DoTx(ctx, f.d, tx, call(accented), effect("second"))
			require.NoError(t, err, "the savepoint gave the encoding back")
			require.NoError(t, tx.Commit(ctx))
			require.Zero(t, f.effects(t, "k"))
			require.Equal(t, []string{accented}, keys(t, f.bundle))
		})
	})
}

// TestShadowedClock puts a frozen clock before pg_catalog: records must not be
// born forgotten, nor effects be taken for broken.
func TestShadowedClock(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, nil)
		f.exec(t, `CREATE SCHEMA frozen`)
		for _, name := range []string{"now", "clock_timestamp", "statement_timestamp"} {
			f.exec(t, `CREATE FUNCTION frozen.`+name+`() RETURNS timestamptz LANGUAGE sql AS $$SELECT timestamptz '2000-01-01'$$`)
		}
		frozen := newDeduper(t, f.db.Pool(t, func(config *pgxpool.Config) {
			config.ConnConfig.RuntimeParams["search_path"] = "frozen, pg_catalog, public"
		}), &f.opts)
		e := &tool{ref: "k"}
		for _, replayed := range []bool{false, true} {
			got, err := dedup.Do(ctx, frozen, call("k"), e.run)
			require.NoError(t, err)
			require.Equal(t, replayed, got.Replayed)
		}
		require.Equal(t, 1, f.effects(t, "k"))
		for _, replayed := range []bool{false, true} {
			got, err := dedup.DoStatement[ticket](ctx, frozen, call("s"), dedup.SQL(`INSERT INTO public.effects VALUES ('s') RETURNING 1 AS id, ref AS title`))
			require.NoError(t, err)
			require.Equal(t, replayed, got.Replayed)
		}
	})
}

// spoiled is a pool of one whose connection is given back with LATIN1.
func spoiled(config *pgxpool.Config) {
	config.MaxConns = 1
	config.AfterRelease = func(conn *pgx.Conn) bool {
		_, err := conn.Exec(context.Background(), `SET client_encoding = 'LATIN1'`)
		return err == nil
	}
}

func TestResetOnSpoiledSession(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, nil)
		_, err := dedup.Do(ctx, f.d, call(accented), effect("k"))
		require.NoError(t, err)
		d := newDeduper(t, f.db.Pool(t, spoiled), &f.opts)
		freed, err := d.Reset(ctx, "acme", "create_ticket", accented, "wrong")
		require.NoError(t, err)
		require.True(t, freed)
	})
}

func TestSweepOnSpoiledSession(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	_, err := dedup.Do(ctx, f.d, call(accented), effect("k"))
	require.NoError(t, err)
	f.age(t, accented, "100 days")
	pool := f.db.Pool(t, poolOfOne)
	_, err = pool.Exec(ctx, `SET client_encoding = 'LATIN1'`)
	require.NoError(t, err)
	_, err = newDeduper(t, pool, nil).Sweep(ctx, &dedup.SweepOptions{Archive: func(_ context.Context, _ pgx.Tx, batch []dedup.SweptRecord) error {
		require.Equal(t, accented, batch[0].Key)
		return nil
	}})
	require.NoError(t, err)
}
