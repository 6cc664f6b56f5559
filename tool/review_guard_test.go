package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// The guard does the same however statements are sent.
func TestGuardInEveryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t, nil, nil)
			config := b.pool.Config()
			config.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			d, err := dedup.New(pool, nil)
			require.NoError(t, err)
			b.tools = tool.NewRegistry(d, nil)
			b.add(t, "w", tool.Write, func(d *tool.Tool[ticketIn, ticket]) { d.Lookalikes.Action = tool.Report })
			require.NoError(t, tool.NewRegistry(d, nil).Check(t.Context()))
			require.NoError(t, b.tools.Check(t.Context()))
			b.invoke(t, call("w", "k1", `{"title":"a"}`))
			require.NotNil(t, b.invoke(t, call("w", "k2", `{"title":"a"}`)).Lookalike)
			require.NotNil(t, b.invoke(t, call("w", "k2", `{"title":"a"}`)).Lookalike)
			// Reads too, for which there is no record.
			require.NoError(t, b.tools.Add(tool.Tool[struct{}, int]{Name: "r", Class: tool.ReadOnly, Run: func(ctx context.Context, tx pgx.Tx, _ struct{}) (int, error) {
				_, err := tx.Exec(ctx, `SET TRANSACTION READ WRITE`)
				return 0, err
			}}))
			require.ErrorContains(t, b.fails(t, call("r", "", "")), "before any query")
		})
	}
}

// Lookalikes and their twins in a small pool take turns and do not hang.
func TestLookalikesInASmallPool(t *testing.T) {
	t.Parallel()
	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		b := setup(t, nil, nil)
		config := b.pool.Config()
		config.MaxConns = 2
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		d, err := dedup.New(pool, &dedup.Options{Order: order})
		require.NoError(t, err)
		b.tools = tool.NewRegistry(d, nil)
		b.add(t, "w", tool.Write, func(d *tool.Tool[ticketIn, ticket]) { d.Lookalikes.Action = tool.Refuse })
		done := make(chan error, 24)
		for i := range cap(done) {
			go func() {
				_, err := b.tools.Invoke(t.Context(), call("w", string(rune('a'+i/2)), `{"title":"a"}`)) // twins too
				done <- err
			}()
		}
		ran := 0
		for range cap(done) {
			var alike *tool.LookalikeError
			if err := <-done; err != nil {
				require.ErrorAs(t, err, &alike)
				continue
			}
			ran++
		}
		require.Equal(t, 2, ran, "a call and its twin")
		require.Equal(t, 1, b.count(t, "tickets"))
	}
}

// What encoding/json would read as something else is refused.
func TestArgumentsHaveOneReading(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type inner struct {
		A string `json:"a,omitempty"`
	}
	type in struct {
		M map[string]inner `json:"m,omitempty"`
		R json.RawMessage  `json:"r,omitempty" dedup:"redact"`
		N int64            `json:"n,omitempty"`
	}
	var got []in
	require.NoError(t, b.tools.Add(tool.Tool[in, string]{Name: "t", Class: tool.Write, Run: func(_ context.Context, _ pgx.Tx, i in) (string, error) {
		got = append(got, i)
		return "ok", nil
	}}))
	for _, bad := range []string{
		`{"m":{"x":{"A":"1"}}}`, `{"m":{"x":{"a":"1","\u0061":"2"}}}`, `{"n":1.5}`, `{"n":1e-1}`, `{"n":"1"}`, `{"M":{}}`, `{"ſ":1}`, `{"\u017f":1}`,
		`{"m":{"x":null}}`, `{"n":9223372036854775808}`,
	} {
		var arg *tool.ArgumentError
		require.ErrorAs(t, b.fails(t, call("t", "k", bad)), &arg, bad)
	}
	require.Empty(t, got)
}
