package dedup_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestResetForgottenClaimFirst(t *testing.T) {
	t.Parallel()
	ctx, f := variant{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}.setup(t, nil)
	_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	f.age(t, "k", "100 days")
	freed, err := f.d.Reset(ctx, "acme", "create_ticket", "k", "wrong answer")
	require.NoError(t, err)
	require.True(t, freed)
	require.Zero(t, f.records(t))
}

func TestBrokenInTxClaimFirst(t *testing.T) {
	t.Parallel()
	ctx, f := variant{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}.setup(t, &dedup.Options{CommitTimeout: time.Second}, poolOfOne)
	f.warm(t)
	_, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Conn().Exec(ctx, "commit")
		return ticket{}, err
	})
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.NotContains(t, err.Error(), "could not be recorded")
}

func TestPermissionDeniedInTx(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, &dedup.Options{Schema: "hidden"})
		role := pgx.Identifier{"nobody_" + f.db.Name[:24]}.Sanitize()
		f.exec(t, `CREATE SCHEMA hidden`)
		f.exec(t, `ALTER TABLE tool_dedup SET SCHEMA hidden`)
		f.exec(t, `CREATE ROLE `+role)
		t.Cleanup(func() { _, _ = f.pool.Exec(context.WithoutCancel(ctx), `DROP ROLE `+role) })
		tx := f.begin(t, ctx)
		_, err := tx.Exec(ctx, `SET LOCAL ROLE `+role)
		require.NoError(t, err)
		_, err = dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
		// pgx prepares before the savepoint is set, so nothing can be saved; but
		// the caller is told.
		require.ErrorContains(t, err, "roll it back")
		require.ErrorContains(t, err, "migrations.Check")
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

func TestCommitThroughRowsConn(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		rows, err := tx.Query(ctx, "select 1")
		if err != nil {
			return err
		}
		conn := rows.Conn()
		rows.Close()
		if _, err = conn.Exec(ctx, "commit; begin"); err != nil {
			return err
		}
		return errPaper
	}}
	for range 2 {
		_, err := dedup.Do(ctx, f.d, call("k"), e.run)
		t.Log(err)
	}
	require.Equal(t, 1, f.effects(t, "k"))
}

func TestShadowedNow(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	f.exec(t, `CREATE SCHEMA frozen`)
	f.exec(t, `CREATE FUNCTION frozen.now() RETURNS timestamptz LANGUAGE sql AS $$SELECT timestamptz '2000-01-01'$$`)
	d := newDeduper(t, f.db.Pool(t, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["search_path"] = "frozen, pg_catalog, public"
	}), nil)
	_, err := dedup.Do(ctx, d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_ = tx.Conn().TypeMap()
		return ticket{}, errPaper
	})
	require.ErrorIs(t, err, errPaper)
	require.NotErrorIs(t, err, dedup.ErrBroken)
}
