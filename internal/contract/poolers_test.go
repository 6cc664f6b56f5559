package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgbouncer"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestLongContractThroughPgBouncer runs the contract in transaction pooling mode: both orders,
// statements, a stricter isolation level, and the exec modes that work there with a PgBouncer before 1.21.
func TestLongContractThroughPgBouncer(t *testing.T) {
	t.Parallel()

	runThroughPgBouncer(t,
		profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec},
		profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec},
		profile{way: viaStatement, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec},
		profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeCacheDescribe},
		profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol},
		profile{order: dedup.LockFirst, isolation: pgx.Serializable, mode: pgx.QueryExecModeExec},
		profile{way: viaStatement, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeCacheDescribe},
		profile{way: viaStatement, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol},
	)
}

func runThroughPgBouncer(t *testing.T, profiles ...profile) {
	t.Helper()
	bouncer := pgbouncer.New(t, pgtest.NewEmpty(t).URL)
	for i := range profiles {
		profiles[i].bouncer = bouncer
	}
	runContract(t, profiles...)
}

// TestNoLocksStayBehindThePooler looks at the server's connections, which live on
// after their clients.
func TestNoLocksStayBehindThePooler(t *testing.T) {
	t.Parallel()

	p := profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec}
	p.bouncer = pgbouncer.New(t, pgtest.NewEmpty(t).URL)
	ctx, f := p.setup(t, nil)
	for range 2 {
		_, err := dedup.Do(ctx, f.d, call("k"), (&tool{ref: "k"}).run)
		require.NoError(t, err)
		c := call("k")
		_, err = f.d.Lookup(ctx, c.Scope, c.Tool, c.Key)
		require.NoError(t, err)
	}
	f.pool.Close()
	require.Positive(t, scalar[int](t, f.bundle, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`))
	require.Zero(t, scalar[int](t, f.bundle, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE locktype = 'advisory' AND datname = current_database()`))
}

// discarding is a pool that discards what was prepared when a connection comes back,
// as some do that share connections between programs.
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
	for i, first := range []func(d *dedup.Deduper, key string) error{
		func(d *dedup.Deduper, key string) error {
			_, err := dedup.Do(ctx, d, call(key), effect(key))
			return err
		},
		func(d *dedup.Deduper, key string) error {
			f.exec(t, fixtureSQL)
			f.exec(t, `DISCARD ALL`)
			return outcomes(ctx, d, singles(key, 2)...)[0].Err
		},
	} {
		f.exec(t, `DISCARD ALL`)
		require.NoError(t, first(newDeduper(t, f.pool, nil), fmt.Sprint("first ", i)))
	}
}
