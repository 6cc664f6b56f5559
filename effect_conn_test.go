package dedup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

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

type connTaker struct{ conn *pgx.Conn }

func (c *connTaker) ScanRow(rows pgx.Rows) error { c.conn = rows.Conn(); return nil }

// The other ways to the connection that the guard does not stand before.
func TestCommitThroughOtherConns(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(ctx context.Context, tx pgx.Tx) (*pgx.Conn, error){
		"RowsOfBatch": func(ctx context.Context, tx pgx.Tx) (*pgx.Conn, error) {
			b := &pgx.Batch{}
			b.Queue("select 1")
			results := tx.SendBatch(ctx, b)
			rows, err := results.Query()
			if err != nil {
				return nil, err
			}
			rows.Close()
			return rows.Conn(), results.Close()
		},
		"RowsOfQueued": func(ctx context.Context, tx pgx.Tx) (conn *pgx.Conn, err error) {
			b := &pgx.Batch{}
			b.Queue("select 1").Query(func(rows pgx.Rows) error { conn = rows.Conn(); return nil })
			err = tx.SendBatch(ctx, b).Close()
			return conn, err
		},
		"RowScanner": func(ctx context.Context, tx pgx.Tx) (*pgx.Conn, error) {
			var taker connTaker
			err := tx.QueryRow(ctx, "select 1").Scan(&taker)
			return taker.conn, err
		},
		"RowScannerOfRows": func(ctx context.Context, tx pgx.Tx) (*pgx.Conn, error) {
			var taker connTaker
			rows, err := tx.Query(ctx, "select 1")
			if err != nil {
				return nil, err
			}
			for rows.Next() {
				err = errors.Join(err, rows.Scan(&taker))
			}
			return taker.conn, errors.Join(err, rows.Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, nil)
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				conn, err := take(ctx, tx)
				if err == nil {
					_, err = conn.Exec(ctx, "commit; begin")
				}
				return errors.Join(err, errPaper)
			}}
			for range 2 {
				_, err := dedup.Do(ctx, f.d, call("k"), e.run)
				require.Error(t, err)
			}
			require.Equal(t, 1, f.effects(t, "k"))
		})
	}
}
