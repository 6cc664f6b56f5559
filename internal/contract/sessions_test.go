package contract_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
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

// TestSession: a session that speaks another client_encoding would store keys as
// other characters and run their twins again.
func TestSession(t *testing.T) {
	t.Parallel()

	t.Run("LeftBehind", func(t *testing.T) {
		t.Parallel()
		for _, mode := range execModes {
			t.Run(mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, f := profile{mode: mode, isolation: pgx.ReadCommitted}.setup(t, nil, poolOfOne)
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
					ctx, f := profile{mode: mode, isolation: pgx.ReadCommitted}.setup(t, nil, poolOfOne)
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
		e := &tool{ref: "k"}
		for _, replayed := range []bool{false, true} {
			got, err := dedup.Do(ctx, frozen, call("k"), e.run)
			require.NoError(t, err)
			require.Equal(t, replayed, got.Replayed)
		}
		require.Equal(t, 1, f.effects(t, "k"))
		_, err := dedup.Do(ctx, frozen, call("asks for the connection"), func(_ context.Context, tx pgx.Tx) (ticket, error) {
			_ = tx.Conn()
			return ticket{}, errPaper
		})
		require.ErrorIs(t, err, errPaper)
		require.NotErrorIs(t, err, dedup.ErrBroken)
		for _, replayed := range []bool{false, true} {
			got, err := dedup.DoStatement[ticket](ctx, frozen, call("s"), dedup.SQL(`INSERT INTO public.effects VALUES ('s') RETURNING 1 AS id, ref AS title`))
			require.NoError(t, err)
			require.Equal(t, replayed, got.Replayed)
		}
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
				for _, replayed := range []bool{false, true} {
					got, err := dedup.Do(ctx, f.d, call("do"), effect("do"))
					require.NoError(t, err)
					require.Equal(t, replayed, got.Replayed)
					require.NoError(t, pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
						got, err := dedup.DoTx(ctx, f.d, tx, call("tx"), effect("tx"))
						require.Equal(t, replayed, got.Replayed)
						return err
					}))
					got, err = dedup.DoStatement[ticket](ctx, f.d, call("statement"), dedup.SQL(`INSERT INTO effects VALUES ('statement') RETURNING 1 AS id, ref AS title`))
					require.NoError(t, err)
					require.Equal(t, replayed, got.Replayed)
				}
			})
		})
	}
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
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		_, err := dedup.Do(ctx, f.d, call(accented), effect("k"))
		require.NoError(t, err)
		d := newDeduper(t, f.db.Pool(t, spoiled), &f.opts)
		freed, err := d.Reset(ctx, "acme", "create_ticket", accented, dedup.ResetOptions{Reason: "wrong"})
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

// TestLineIsShared has Dedupers with other options, and so other texts, take turns
// on one connection.
func TestLineIsShared(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, poolOfOne)
			f.countRuns(t)
			f.exec(t, `CREATE SCHEMA other`)
			f.exec(t, `CREATE TABLE other.tool_dedup (LIKE tool_dedup INCLUDING ALL)`)
			dedupers := []*dedup.Deduper{f.d}
			for _, opts := range []dedup.Options{{Order: dedup.ClaimFirst}, {Retention: apart(true)}, {IdleTimeout: time.Hour}, {}, {Schema: "other"}} {
				dedupers = append(dedupers, newDeduper(t, f.pool, &opts))
			}
			calls := 0
			for round := range 3 {
				for i, d := range dedupers {
					key := fmt.Sprint(round, " ", i)
					for _, replayed := range []bool{false, true} {
						result, err := dedup.DoStatement[ticket](ctx, d, call(key), leave(key))
						require.NoError(t, err)
						require.Equal(t, replayed, result.Replayed)
						again, err := dedup.Do(ctx, d, call(key), effect("never"))
						require.NoError(t, err)
						require.Equal(t, result.Value, again.Value)
					}
					calls++
				}
			}
			require.Equal(t, calls, f.runs(t))
			require.Zero(t, f.effects(t, "never"))
			require.EqualValues(t, 1, f.pool.Stat().NewConnsCount())
		})
	}
}

// TestLineAfterDiscard takes away what was prepared on the one connection. A call
// may fail for it, and says so; none is doubled or lost, and the connection is
// replaced.
func TestLineAfterDiscard(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		for _, discard := range []string{`DISCARD ALL`, `DEALLOCATE ALL`} {
			t.Run(mode.String()+"-"+discard, func(t *testing.T) {
				t.Parallel()
				ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, poolOfOne)
				f.countRuns(t)
				do := map[string]func(key string) (dedup.Result[ticket], error){
					"statement": func(key string) (dedup.Result[ticket], error) {
						return dedup.DoStatement[ticket](ctx, f.d, call(key), leave(key))
					},
					"do": func(key string) (dedup.Result[ticket], error) { return dedup.Do(ctx, f.d, call(key), effect(key)) },
					"look": func(key string) (dedup.Result[ticket], error) {
						return dedup.Do(ctx, f.d, lookFirst(key), effect(key))
					},
				}
				for name, do := range do {
					_, err := do(name + " before")
					require.NoError(t, err)
					_, err = f.pool.Exec(ctx, discard, pgx.QueryExecModeSimpleProtocol)
					require.NoError(t, err)
					errs := 0
					for i := range 3 {
						key := fmt.Sprint(name, i)
						result, err := do(key)
						if err != nil {
							errs++
							requireState(t, err, "26000")
							require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
							result, err = do(key)
						}
						require.NoError(t, err)
						require.False(t, result.Replayed)
						require.Equal(t, 1, f.effects(t, key))
					}
					require.LessOrEqual(t, errs, 1, name)
					if name == "statement" {
						require.Zero(t, errs, "what an error means is found out on another connection")
					}
				}
				if mode == pgx.QueryExecModeCacheStatement {
					require.EqualValues(t, 1+len(do), f.pool.Stat().NewConnsCount(), "each time it was replaced")
				}
			})
		}
	}
}

// TestEffectDiscards has effects take away what was prepared on their connection. Do runs
// them once more and writes their records; DoTx says what they did.
func TestEffectDiscards(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
			t.Run(mode.String()+"-"+string(order), func(t *testing.T) {
				t.Parallel()
				ctx, f := profile{order: order, isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, poolOfOne)
				discards := func(ref string) dedup.Effect[ticket] {
					return func(ctx context.Context, tx pgx.Tx) (ticket, error) {
						got, err := effect(ref)(ctx, tx)
						if err == nil {
							_, err = tx.Exec(ctx, `DEALLOCATE ALL`, pgx.QueryExecModeSimpleProtocol)
						}
						return got, err
					}
				}
				for range 2 {
					_, err := dedup.Do(ctx, f.d, call("do"), discards("do"))
					require.NoError(t, err)
				}
				require.Equal(t, []string{"do"}, keys(t, f.bundle))
				require.Equal(t, 1, f.effects(t, "do"))

				tx := f.begin(t, ctx)
				_, err := dedup.DoTx(ctx, f.d, tx, call("tx"), discards("tx"))
				if mode == pgx.QueryExecModeCacheStatement { // the connection is the caller's, and so is what it has prepared
					require.ErrorIs(t, err, dedup.ErrInvalid)
					require.ErrorContains(t, err, "DEALLOCATE")
					requireState(t, err, "26000")
				} else {
					require.NoError(t, err)
				}
				require.NoError(t, tx.Commit(ctx), "the transaction is as it was")
				require.Equal(t, f.records(t)-1, f.effects(t, "tx"))
			})
		}
	}
}

// TestLineForgetsTexts uses more texts than a connection is to remember.
func TestLineForgetsTexts(t *testing.T) {
	t.Parallel()

	const texts = 1_100
	ctx, f := plain.setup(t, nil, poolOfOne)
	prepared := func() (n int) {
		require.NoError(t, f.pool.QueryRow(ctx, `SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'tool\_dedup\_%'`).Scan(&n))
		return n
	}
	most := 0
	for i := range texts {
		key := fmt.Sprint(i)
		_, err := dedup.DoStatement[ticket](ctx, f.d, call(key), dedup.SQL(fmt.Sprintf(`SELECT %d AS id`, i)))
		require.NoError(t, err)
		if i%100 == 0 || i > 980 && i < 1020 {
			most = max(most, prepared())
		}
	}
	require.Greater(t, most, 990)
	require.LessOrEqual(t, most, 1_001)
	require.Less(t, prepared(), 200)
	require.Equal(t, texts, f.records(t))

	// What was forgotten is made again, the library's own statements too.
	for _, key := range []string{"0", "1099"} {
		result, err := dedup.Do(ctx, f.d, call(key), effect("never"))
		require.NoError(t, err)
		require.True(t, result.Replayed)
	}
	require.EqualValues(t, 1, f.pool.Stat().NewConnsCount())
}

// TestLineAfterABadText: what a text that cannot be prepared leaves of a connection.
func TestLineAfterABadText(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, poolOfOne)
			f.countRuns(t)
			for i := range 3 {
				_, err := dedup.DoStatement[ticket](ctx, f.d, call("bad"), dedup.SQL(`SELECT nonsense`))
				requireState(t, err, "42703")
				key := fmt.Sprint(i)
				_, err = dedup.DoStatement[ticket](ctx, f.d, call(key), leave(key))
				require.NoError(t, err)
			}
			require.Equal(t, 3, f.runs(t))
			require.EqualValues(t, 1, f.pool.Stat().NewConnsCount())
		})
	}
}

// TestLineAfterAMigration changes what the statements were prepared for: the type
// of a parameter, the columns of a result, the table.
func TestLineAfterAMigration(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, profile{isolation: pgx.ReadCommitted, mode: mode}, nil, poolOfOne)
			f.exec(t, `CREATE TABLE things (id int, title text)`)
			f.exec(t, `INSERT INTO things VALUES (1, 'one')`)
			n := 0
			do := func() int {
				n++
				proxy.Reset()
				result, err := dedup.DoStatement[map[string]any](ctx, f.d, call(fmt.Sprint(n)), dedup.SQL(`UPDATE things SET title = title WHERE id = $1 RETURNING *`, "1"))
				require.NoError(t, err)
				require.Equal(t, "one", result.Value["title"])
				return proxy.Snapshot().RoundTrips
			}
			if mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
				f.exec(t, `ALTER TABLE things ALTER COLUMN id TYPE text`) // what a string is sent as
			}
			do()
			usual := do()
			usual = min(usual, do())
			for _, ddl := range []string{
				`ALTER TABLE things ADD COLUMN more int DEFAULT 7`,
				`ALTER TABLE things ALTER COLUMN id TYPE text`,
				`ALTER TABLE things RENAME TO old; CREATE TABLE things AS SELECT * FROM old`,
				`ALTER TABLE tool_dedup ADD COLUMN note text`,
			} {
				_, err := f.pool.Exec(ctx, ddl, pgx.QueryExecModeSimpleProtocol)
				require.NoError(t, err)
				do()
				do()
				require.Equal(t, usual, do(), "it is as it was before %s", ddl)
			}
			require.Equal(t, n, f.records(t))
		})
	}
}

// sqlTracer keeps the texts that a pool's tracer sees.
type sqlTracer struct {
	mu    sync.Mutex
	texts []string
}

func (s *sqlTracer) add(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, sql)
}

func (s *sqlTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.add(data.SQL)
	return ctx
}
func (s *sqlTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (s *sqlTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (s *sqlTracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.add(data.SQL)
}
func (s *sqlTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestLineIsTraced: a tracer in the pool's config sees the library's statements.
func TestLineIsTraced(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			tracer := &sqlTracer{}
			ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer })
			f.countRuns(t)
			for i, d := range []*dedup.Deduper{f.d, newDeduper(t, f.pool, nil)} {
				result, err := dedup.DoStatement[ticket](ctx, d, call("k"), leave("k"))
				require.NoError(t, err)
				require.Equal(t, i == 1, result.Replayed)
			}
			_, err := dedup.Do(ctx, f.d, call("do"), effect("do"))
			require.NoError(t, err)
			all := strings.Join(tracer.texts, "\n")
			for _, part := range []string{"a twin of this call is in flight", "pg_try_advisory_xact_lock_shared", "INSERT INTO effects", "commit"} {
				require.Contains(t, all, part)
			}
		})
	}
}
