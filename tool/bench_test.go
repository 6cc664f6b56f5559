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

// BenchmarkInvoke shows what a call by name costs beside dedup.Do.
func BenchmarkInvoke(b *testing.B) {
	pool := pgtest.New(b).Pool(b)
	_, err := pool.Exec(b.Context(), `CREATE TABLE tickets (id bigint GENERATED ALWAYS AS IDENTITY, title text)`)
	require.NoError(b, err)
	d, err := dedup.New(pool, nil)
	require.NoError(b, err)
	run := func(ctx context.Context, tx pgx.Tx, in ticketIn) (out ticket, err error) {
		err = tx.QueryRow(ctx, `INSERT INTO tickets (title) VALUES ($1) RETURNING id, title`, in.Title).Scan(&out.ID, &out.Title)
		return out, err
	}
	tools := tool.NewRegistry(d, nil)
	require.NoError(b, tools.Add(
		tool.Tool[ticketIn, ticket]{Name: "plain", Class: tool.Write, Run: run},
	))
	args := json.RawMessage(`{"title":"a ticket","note":"as the guest said"}`)

	b.Run("Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			in := ticketIn{Title: "a ticket"}
			_, err := dedup.Do(b.Context(), d, dedup.Call{Scope: "acme", Tool: "do", Key: dedup.NewKey(), Args: in},
				func(ctx context.Context, tx pgx.Tx) (ticket, error) { return run(ctx, tx, in) })
			require.NoError(b, err)
		}
	})
	b.Run("Invoke", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := tools.Invoke(b.Context(), tool.Invocation{Scope: "acme", Session: "s", Key: dedup.NewKey(), Tool: "plain", Args: args})
			require.NoError(b, err)
		}
	})
	b.Run("Replay/Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := dedup.Do(b.Context(), d, dedup.Call{Scope: "acme", Tool: "do", Key: "again", Args: ticketIn{Title: "a"}},
				func(ctx context.Context, tx pgx.Tx) (ticket, error) { return run(ctx, tx, ticketIn{Title: "a"}) })
			require.NoError(b, err)
		}
	})
	b.Run("Replay/Invoke", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := tools.Invoke(b.Context(), tool.Invocation{Scope: "acme", Session: "s", Key: "again", Tool: "plain", Args: args})
			require.NoError(b, err)
		}
	})
}
