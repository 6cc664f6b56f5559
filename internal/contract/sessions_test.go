package contract_test

import (
	"context"
	"slices"
	"testing"
	"time"

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

// spoiled is a pool of one whose connection is given back with LATIN1, as by an import that forgot
// to RESET.
func spoiled(config *pgxpool.Config) {
	config.MaxConns = 1
	config.AfterRelease = func(conn *pgx.Conn) bool {
		_, err := conn.Exec(context.Background(), `SET client_encoding = 'LATIN1'`)
		return err == nil
	}
}

// TestEncoding: a session that speaks another client_encoding would store keys as other characters
// and run their twins again.
func TestEncoding(t *testing.T) {
	t.Parallel()

	t.Run("LeftBehind", func(t *testing.T) {
		t.Parallel()
		for _, mode := range execModes {
			t.Run(mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, f := profile{mode: mode, isolation: pgx.ReadCommitted}.setup(t, nil, spoiled)
				require.NoError(t, f.pool.Ping(ctx))
				first, err := byDo(ctx, f.d, call(accented))
				require.NoError(t, err)
				status, err := f.d.Lookup(ctx, "acme", "create_ticket", accented)
				require.NoError(t, err)
				require.Equal(t, dedup.StateDone, status.State)
				again, err := byDo(ctx, newDeduper(t, f.db.Pool(t), nil), call(accented))
				require.NoError(t, err)
				require.True(t, again.Replayed)
				require.Equal(t, first.Value, again.Value)
				require.Equal(t, []string{accented}, keys(t, f.bundle))

				f.exec(t, `UPDATE tool_dedup SET created_at = created_at - interval '100 days', expires_at = expires_at - interval '100 days', forget_at = forget_at - interval '100 days'`)
				swept, err := f.d.Sweep(ctx, &dedup.SweepOptions{Archive: func(_ context.Context, _ pgx.Tx, batch []dedup.SweptRecord) error {
					require.Equal(t, accented, batch[0].Key)
					return nil
				}})
				require.NoError(t, err)
				require.EqualValues(t, 1, swept.Forgotten)
				_, err = byDo(ctx, f.d, call(accented))
				require.NoError(t, err)
				freed, err := f.d.Reset(ctx, "acme", "create_ticket", accented, dedup.ChangeOptions{Reason: "wrong"})
				require.NoError(t, err)
				require.True(t, freed)
			})
		}
	})

	// New connections have the same setting, so the call ends and names it.
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
			t.Run(mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, f := profile{mode: mode, isolation: pgx.ReadCommitted}.setup(t, nil, poolOfOne)
				for name, set := range map[string]string{ // in either order: the connection is new to one of them
					"Set":      `SET client_encoding = 'LATIN1'`,
					"SetLocal": `SET LOCAL client_encoding = 'LATIN1'`,
				} {
					f.exec(t, `DELETE FROM effects; DELETE FROM tool_dedup`)
					e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, run int) error {
						if run > 1 {
							return nil
						}
						_, err := tx.Exec(ctx, set)
						return err
					}}
					stores := call(accented)
					stores.StoreErrors = true // of the effect, and this is the library's
					_, err := dedup.Do(ctx, f.d, stores, e.run)
					require.ErrorContains(t, err, "client_encoding", name)
					require.Zero(t, f.effects(t, "k"), name)
					require.Zero(t, f.records(t), name)

					_, err = dedup.Do(ctx, f.d, call(accented), e.run)
					require.NoError(t, err, name)
					require.Equal(t, []string{accented}, keys(t, f.bundle), name)
				}
			})
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
		var invalid *dedup.InvalidError
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
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
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

	// Nothing is kept of a statement that leaves its session reading and writing other characters.
	t.Run("InAStatement", func(t *testing.T) {
		t.Parallel()
		for _, mode := range execModes {
			t.Run(mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, poolOfOne)
				stmt := dedup.SQL(`WITH e AS (INSERT INTO effects VALUES ('k') RETURNING ref)
					SELECT 'Zürich' AS title FROM e WHERE set_config('client_encoding', 'LATIN1', false) <> ''`)
				for range 2 {
					_, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), stmt)
					require.Error(t, err)
				}
				require.Zero(t, f.effects(t, "k"))
				require.Zero(t, f.records(t))
			})
		}
	})

	// Nor is the next call of its chunk a stranger to itself.
	t.Run("InABatch", func(t *testing.T) {
		t.Parallel()
		for _, local := range []bool{false, true} {
			ctx, f := plain.setup(t, nil)
			out := outcomes(ctx, f.d,
				dedup.StatementCall{Call: call("a"), Statement: dedup.SQL(`SELECT 1 AS id, set_config('client_encoding', 'LATIN1', $1) AS title`, local)},
				single(accented))
			require.Error(t, out[0].Err)
			require.NoError(t, out[1].Err)
			again, err := byStatement(ctx, f.d, call(accented))
			require.NoError(t, err)
			require.True(t, again.Replayed)
			require.Equal(t, []string{accented}, keys(t, f.bundle))
			f.exactly(t, 1)
		}
	})
}

// TestShadowedClock puts a frozen clock before pg_catalog: records must not be
// born forgotten, nor effects be taken for broken.
func TestShadowedClock(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		f.exec(t, `CREATE SCHEMA frozen`)
		for _, name := range []string{"now", "clock_timestamp", "statement_timestamp"} {
			f.exec(t, `CREATE FUNCTION frozen.`+name+`() RETURNS timestamptz LANGUAGE sql AS $$SELECT timestamptz '2000-01-01'$$`)
		}
		frozen := newDeduper(t, f.db.Pool(t, func(config *pgxpool.Config) {
			config.ConnConfig.RuntimeParams["search_path"] = "frozen, pg_catalog, public"
		}), &f.opts)
		requireReplays(t, ctx, frozen, byDo, byTx, byStatement)
		_, err := dedup.Do(ctx, frozen, call("asks for the connection"), func(_ context.Context, tx pgx.Tx) (ticket, error) {
			_ = tx.Conn()
			return ticket{}, errPaper
		})
		require.ErrorIs(t, err, errPaper)
		require.NotErrorIs(t, err, dedup.ErrBroken)
	})
}

// Programs may send a time.Time as another type, with the offset of its zone left out.
func TestTimeSentAsTimestamp(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			bothOrders(t, func(t *testing.T, p profile) {
				p.mode = mode
				ctx, f := p.setup(t, nil, func(config *pgxpool.Config) {
					config.ConnConfig.RuntimeParams["timezone"] = "Asia/Kolkata"
					config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
						conn.TypeMap().RegisterDefaultPgType(time.Time{}, "timestamp")
						return nil
					}
				})
				requireReplays(t, ctx, f.d, byDo, byTx, byStatement)
			})
		})
	}
}

// TestOtherStyles: a session's text format of times, bytes and numbers changes no answer, even if
// pgx reads text.
func TestOtherStyles(t *testing.T) {
	t.Parallel()
	styles := map[string][2]string{
		"Escape":         {"bytea_output", "escape"},
		"SQL":            {"DateStyle", "SQL, DMY"},
		"German":         {"DateStyle", "German"},
		"Postgres":       {"DateStyle", "Postgres, MDY"},
		"SQLStandard":    {"IntervalStyle", "sql_standard"},
		"ISO8601":        {"IntervalStyle", "iso_8601"},
		"Zone":           {"TimeZone", "Asia/Kathmandu"},
		"FewDigits":      {"extra_float_digits", "-15"},
		"BackslashQuote": {"standard_conforming_strings", "off"},
	}
	modes := map[string]func(*pgx.ConnConfig){
		"CacheStatement": func(*pgx.ConnConfig) {},
		"ExecTraced": func(c *pgx.ConnConfig) {
			c.DefaultQueryExecMode, c.Tracer = pgx.QueryExecModeExec, &acquireTracer{waiting: func() {}}
		},
		"Simple": func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
	}
	for mode, configure := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ctx, b := setup(t, nil)
			for name, style := range styles {
				if style[0] == "standard_conforming_strings" && mode == "Simple" {
					continue // pgx refuses the session
				}
				b.exec(t, `DELETE FROM effects; DELETE FROM tool_dedup`)
				pool := b.db.Pool(t, func(c *pgxpool.Config) {
					configure(c.ConnConfig)
					c.ConnConfig.RuntimeParams[style[0]] = style[1]
				})
				d := newDeduper(t, pool, nil)
				both := func(key string) []dedup.StatementCall {
					return []dedup.StatementCall{{Call: call(key), Statement: leave(key)}, {Call: call("other"), Statement: leave("other")}}
				}
				var first []time.Time
				for n := range 2 { // the call, and its replay
					var at []time.Time
					note := func(r dedup.Result[ticket], err error) {
						t.Helper()
						require.NoError(t, err, name)
						require.Equal(t, n == 1, r.Replayed, name)
						at = append(at, r.CreatedAt)
					}
					note(dedup.Do(ctx, d, call("Do"), effect("Do")))
					looking := call("LookFirst")
					looking.LookFirst = true
					note(dedup.Do(ctx, d, looking, effect("LookFirst")))
					note(dedup.DoStatement[ticket](ctx, d, call("DoStatement"), leave("DoStatement")))
					for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(both("DoBatch")), nil) {
						note(out.Result, out.Err)
					}
					require.NoError(t, d.BeginFunc(ctx, func(tx pgx.Tx) error {
						r, err := dedup.DoTx(ctx, d, tx, call("DoTx"), effect("DoTx"))
						note(r, err)
						return err
					}), name)
					if n == 1 {
						require.Equal(t, first, at, name)
					}
					first = at
				}
				_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "create_ticket", Key: "Do", Args: "other"}, effect("Do"))
				require.ErrorIs(t, err, dedup.ErrKeyReused, name)
				status, err := d.Lookup(ctx, "acme", "create_ticket", "Do")
				require.NoError(t, err, name)
				require.Equal(t, first[0], status.CreatedAt, name)
				freed, err := d.Reset(ctx, "acme", "create_ticket", "Do", dedup.ChangeOptions{Reason: "wrong", CreatedAt: first[0]})
				require.NoError(t, err, name)
				require.True(t, freed, name)
				b.exec(t, `UPDATE tool_dedup SET expires_at = now(), forget_at = now() WHERE key = 'DoTx'`)
				var archived []time.Time
				_, err = d.Sweep(ctx, &dedup.SweepOptions{Archive: func(_ context.Context, _ pgx.Tx, records []dedup.SweptRecord) error {
					for _, r := range records {
						archived = append(archived, r.CreatedAt)
					}
					return nil
				}})
				require.NoError(t, err, name)
				require.Equal(t, first[len(first)-1:], archived, name)
			}
		})
	}
}
