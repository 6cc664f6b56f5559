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

// TestLineIsShared has Dedupers with other options, and so other texts, take turns
// on one connection.
func TestLineIsShared(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, poolOfOne)
			f.exec(t, `CREATE SCHEMA other`)
			f.exec(t, `CREATE TABLE other.tool_dedup (LIKE tool_dedup INCLUDING ALL)`)
			dedupers := []*dedup.Deduper{f.d}
			for _, opts := range []dedup.Options{{}, {IdleTimeout: time.Hour}, {}, {Schema: "other"}} {
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

// TestLineAfterDiscard discards the prepared statements of the only connection. A call may fail
// with that error. No call is doubled or lost, and the connection is replaced.
func TestLineAfterDiscard(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		for _, discard := range []string{`DISCARD ALL`, `DEALLOCATE ALL`} {
			t.Run(mode.String()+"-"+discard, func(t *testing.T) {
				t.Parallel()
				ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, poolOfOne)
				do := map[string]way{"statement": byStatement, "do": byDo, "look": func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
					c.LookFirst = true
					return byDo(ctx, d, c)
				}}
				for name, do := range do {
					_, err := do(ctx, f.d, call(name+" before"))
					require.NoError(t, err)
					_, err = f.pool.Exec(ctx, discard, pgx.QueryExecModeSimpleProtocol)
					require.NoError(t, err)
					errs := 0
					for i := range 3 {
						c := call(fmt.Sprint(name, i))
						result, err := do(ctx, f.d, c)
						if err != nil {
							errs++
							requireState(t, err, "26000")
							require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
							result, err = do(ctx, f.d, c)
						}
						require.NoError(t, err)
						require.False(t, result.Replayed)
						require.Equal(t, 1, f.effects(t, c.Key))
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

// TestEffectDiscards has effects that discard the prepared statements of their connection. Do runs
// them once more and records them; DoTx returns an error that names the cause.
func TestEffectDiscards(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		for _, order := range []orderKind{lockFirst, claimFirst} {
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
				if mode == pgx.QueryExecModeCacheStatement { // the caller owns the connection and its prepared statements
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

// TestLineAfterABadText: a text that cannot be prepared leaves the connection usable.
func TestLineAfterABadText(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, poolOfOne)
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

// TestLineAfterAMigration changes the objects of prepared statements: the type of a parameter, the
// columns of a result, the table.
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
				f.exec(t, `ALTER TABLE things ALTER COLUMN id TYPE text`) // the type that strings are sent as
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
			requireReplays(t, ctx, f.d, byStatement)
			_, err := byStatement(ctx, newDeduper(t, f.pool, nil), call("way 0"))
			require.NoError(t, err)
			_, err = byDo(ctx, f.d, call("do"))
			require.NoError(t, err)
			all := strings.Join(tracer.texts, "\n")
			for _, part := range []string{"a twin of this call is in flight", "INSERT INTO effects", "commit"} {
				require.Contains(t, all, part)
			}
		})
	}
}

// A changed type makes a prepared statement wrong, and not for good.
func TestSeparateStatementAfterATypeChanged(t *testing.T) {
	t.Parallel()

	ctx, f := readCommitted.setup(t, nil, poolOfOne)
	f.exec(t, `CREATE TABLE z (v int)`)
	do := func(key string, arg any) error {
		_, err := dedup.DoStatement[map[string]any](ctx, f.d, call(key), dedup.SQL(`INSERT INTO z (v) VALUES ($1) RETURNING v`, arg))
		return err
	}
	require.NoError(t, do("k1", 1))
	f.exec(t, `ALTER TABLE z ALTER v TYPE text`)
	require.NoError(t, do("k2", "x"))
	require.NoError(t, do("k3", "y"))
}

// discarding uses a pool that discards prepared statements when a connection is released, as some
// pools do that share connections between programs.
func (f *fixture) discarding(t *testing.T, conns int32) *dedup.Deduper {
	return newDeduper(t, f.db.Pool(t, func(config *pgxpool.Config) {
		config.MaxConns = conns
		config.AfterRelease = func(conn *pgx.Conn) bool {
			_, err := conn.Exec(context.Background(), `DISCARD ALL`)
			return err == nil
		}
	}), &f.opts)
}

func TestWaitingOnAPoolThatDiscards(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		d := f.discarding(t, 2)
		_, err := dedup.Do(ctx, d, call("warm"), effect("warm"))
		require.NoError(t, err)
		g := newGate()
		e := &tool{ref: "k", then: g.then}
		twin := start(ctx, f.d, call("k"), e.run)
		receive(t, ctx, g.entered)
		c := call("k")
		c.MaxWait = -1
		for range 3 {
			_, err = dedup.Do(ctx, d, c, effect("k"))
			require.ErrorIs(t, err, dedup.ErrInFlight)
			_, err = d.Lookup(ctx, c.Scope, c.Tool, c.Key)
			require.NoError(t, err)
		}
		waiter := start(ctx, d, call("k"), effect("k"))
		g.release()
		first, second := receive(t, ctx, twin).require(t), receive(t, ctx, waiter).require(t)
		require.Equal(t, first.Value, second.Value)
		require.Equal(t, 1, f.effects(t, "k"))
	})
}

func TestLostRaceOnAPoolThatDiscards(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	d := f.discarding(t, 1)
	_, err := dedup.Do(ctx, d, call("warm"), effect("warm"))
	require.NoError(t, err)
	result, err := dedup.Do(ctx, d, call("k"), func(effectCtx context.Context, tx pgx.Tx) (ticket, error) {
		if err := f.rival(ctx, call("k"), "k", ticket{ID: 99, Title: "rival"}); err != nil {
			return ticket{}, err
		}
		return effect("k")(effectCtx, tx)
	})
	require.NoError(t, err)
	require.Equal(t, 99, result.Value.ID)
}

func TestFirstCallAfterDiscard(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil, poolOfOne)
	_, err := dedup.Do(ctx, f.d, call("a"), effect("a"))
	require.NoError(t, err)
	for i, first := range []way{byDo, byBatchOfTwo} {
		f.exec(t, `DISCARD ALL`)
		_, err := first(ctx, newDeduper(t, f.pool, nil), call(fmt.Sprint("first ", i)))
		require.NoError(t, err)
	}
}
