package doctor

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgbouncer"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestExecMode(t *testing.T) {
	t.Parallel()

	for _, tracked := range []bool{true, false} {
		for mode, sound := range map[pgx.QueryExecMode]bool{
			pgx.QueryExecModeCacheStatement: tracked, pgx.QueryExecModeDescribeExec: false,
			pgx.QueryExecModeCacheDescribe: true, pgx.QueryExecModeExec: true, pgx.QueryExecModeSimpleProtocol: true,
		} {
			require.Equal(t, sound, execMode(mode, tracked)["sound"], "%s %v", mode, tracked)
		}
	}
}

// Two clients that have their statements for themselves, as behind a pooler that
// tracks them: here because each has a server connection.
func TestTracksPrepared(t *testing.T) {
	t.Parallel()

	pool := pgtest.NewEmpty(t).Pool(t)
	one, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer one.Release()
	two, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer two.Release()
	tracked, err := tracksPrepared(t.Context(), one.Conn(), two.Conn())
	require.NoError(t, err)
	require.True(t, tracked)
	var left int
	require.NoError(t, one.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'dedup_doctor%'", pgx.QueryExecModeExec).Scan(&left))
	require.Zero(t, left)

	require.NoError(t, two.Conn().Close(t.Context()))
	_, err = tracksPrepared(t.Context(), one.Conn(), two.Conn())
	require.ErrorContains(t, err, "preparing a statement")
}

// afterPrepare is done once a connection has prepared a statement.
type afterPrepare func()

func (afterPrepare) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (afterPrepare) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (afterPrepare) TracePrepareStart(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	return ctx
}
func (do afterPrepare) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) { do() }

// A pooler whose server connections take turns gets one more of them right after
// the statements were prepared, and then has as many as the clients have queries.
func TestTracksPreparedWhereAServerJoins(t *testing.T) {
	t.Parallel()

	for most := 3; most <= 6; most++ {
		url := pgtest.NewEmpty(t).URL
		through, err := pgbouncer.New(t, url, "pool_mode = transaction", "server_round_robin = 1").URL(url)
		require.NoError(t, err)
		connect := func(tracer pgx.QueryTracer) *pgx.Conn {
			config, err := pgx.ParseConfig(through)
			require.NoError(t, err)
			config.DefaultQueryExecMode, config.Tracer = pgx.QueryExecModeExec, tracer
			conn, err := pgx.ConnectConfig(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
			return conn
		}
		// Each transaction has a server connection to itself.
		var open []pgx.Tx
		for range most {
			tx, err := connect(nil).Begin(t.Context())
			require.NoError(t, err)
			open = append(open, tx)
		}
		free := func(n int) {
			for ; n > 0 && len(open) > 0; n-- {
				require.NoError(t, open[0].Rollback(context.WithoutCancel(t.Context())))
				open = open[1:]
			}
		}
		free(2)
		joins := afterPrepare(func() { free(most) })
		tracked, err := tracksPrepared(t.Context(), connect(nil), connect(joins))
		require.NoError(t, err)
		require.False(t, tracked, "%d server connections", most)
	}
}
