package wire

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestArrayParams: arrays arrive as they are, in every mode in which pgx sends.
func TestArrayParams(t *testing.T) {
	t.Parallel()

	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			config, err := pgx.ParseConfig(pgtest.NewEmpty(t).URL)
			require.NoError(t, err)
			config.DefaultQueryExecMode = mode
			conn, err := pgx.ConnectConfig(ctx, config)
			require.NoError(t, err)
			defer conn.Close(ctx)
			on, q := On(conn), NewQuery(`SELECT $1::text[]::text, $2::bigint[]::text, $3::text[]::text`)
			require.NoError(t, on.Prepare(ctx, q))

			some := `b,"ä`
			for _, test := range []struct {
				texts        []string
				ints         []int64
				text, number string
			}{
				{nil, nil, `{}`, `{}`},
				{[]string{}, []int64{}, `{}`, `{}`},
				{[]string{"a", "", `b,"ä`}, []int64{-1, 0, 1 << 40}, `{a,"","b,\"ä"}`, `{-1,0,1099511627776}`},
			} {
				p := on.Pipeline()
				p.Queue(q, test.texts, test.ints, []*string{&some, nil})
				p.Send(ctx)
				var text, number, optional string
				require.True(t, p.Scan(&text, &number, &optional))
				require.NoError(t, p.Close())
				require.Equal(t, test.text, text)
				require.Equal(t, test.number, number)
				require.Equal(t, `{"b,\"ä",NULL}`, optional)
			}
		})
	}
}
