package upstream

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var errUnsendable = errors.New("not to be sent")

type unsendable struct{}

func (unsendable) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return "", nil, errUnsendable
}

// TestTxOfAConnection holds what pgx-tx-of-a-connection.md relies on. When it fails, pgx has
// changed: txOf in internal/wire needs another way.
func TestTxOfAConnection(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, pgtest.NewEmpty(t).URL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, `CREATE TABLE t (n int)`)
	require.NoError(t, err)

	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	b.Queue("", unsendable{})
	results := conn.SendBatch(ctx, b)
	tx := results.Tx()
	require.NotNil(t, tx)
	require.Same(t, conn, tx.Conn())
	_, err = results.Exec()
	require.ErrorIs(t, err, errUnsendable)
	require.Equal(t, byte('I'), conn.PgConn().TxStatus(), "nothing was sent")
	require.False(t, conn.PgConn().IsBusy())

	for range 2 { // one transaction after the other
		_, err = conn.Exec(ctx, `BEGIN`)
		require.NoError(t, err)
		_, err = tx.Exec(ctx, `INSERT INTO t VALUES (1)`)
		require.NoError(t, err)
		nested, err := tx.Begin(ctx)
		require.NoError(t, err)
		_, err = nested.Exec(ctx, `INSERT INTO t VALUES (2)`)
		require.NoError(t, err)
		require.NoError(t, nested.Rollback(ctx))
		require.Equal(t, byte('T'), conn.PgConn().TxStatus())
		_, err = conn.Exec(ctx, `COMMIT`)
		require.NoError(t, err)
	}
	var rows int
	require.NoError(t, conn.QueryRow(ctx, `SELECT sum(n) FROM t`).Scan(&rows))
	require.Equal(t, 2, rows)
}
