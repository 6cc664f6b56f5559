package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool"
)

type ticketIn struct {
	Title string `json:"title"`
	Note  string `json:"note,omitempty" dedup:"ignore"`
}

type ticket struct {
	ID    int64  `json:"id"`
	Title string `json:"title"`
}

func TestInvoke(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE tickets (id bigint GENERATED ALWAYS AS IDENTITY, title text)`)
	require.NoError(t, err)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	tools := tool.NewRegistry(d, nil)
	require.NoError(t, tools.Add(tool.Tool[ticketIn, ticket]{
		Name: "create_ticket", Class: tool.Write, Lookalikes: tool.LookalikeGuard{Action: tool.Refuse},
		Run: func(ctx context.Context, tx pgx.Tx, in ticketIn) (out ticket, err error) {
			err = tx.QueryRow(ctx, `INSERT INTO tickets (title) VALUES ($1) RETURNING id, title`, in.Title).Scan(&out.ID, &out.Title)
			return out, err
		},
	}))
	inv := tool.Invocation{Scope: "acme", Session: "s", Turn: 1, CallID: "c", Tool: "create_ticket", Args: json.RawMessage(`{"title":"a","note":"1"}`)}
	first, err := tools.Invoke(t.Context(), inv)
	require.NoError(t, err)
	inv.Args = json.RawMessage(` {"note":"2", "title" : "a"}`)
	again, err := tools.Invoke(t.Context(), inv)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, string(first.JSON), string(again.JSON))

	inv.CallID = "d"
	_, err = tools.Invoke(t.Context(), inv)
	var alike *tool.LookalikeError
	require.ErrorAs(t, err, &alike)
	require.Equal(t, string(first.JSON), string(alike.Earlier.Result))
	inv.Confirmed = true
	second, err := tools.Invoke(t.Context(), inv)
	require.NoError(t, err)
	require.NotNil(t, second.Lookalike)
	require.NotEqual(t, string(first.JSON), string(second.JSON))
}
