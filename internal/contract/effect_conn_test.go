package contract_test

import (
	"context"
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
