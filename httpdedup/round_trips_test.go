package httpdedup_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// queries counts the statements that pgx sends outside pipelines.
type queries struct{ sent atomic.Int32 }

func (q *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	q.sent.Add(1)
	return ctx
}

func (q *queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestDiscardedAnswerCostsNoLook: if the handler did not ask for the connection of its transaction,
// the middleware need not ask the server which transaction it is in. Otherwise it must.
func TestDiscardedAnswerCostsNoLook(t *testing.T) {
	t.Parallel()
	q := new(queries)
	s := open(t, httpdedup.Options{}, func(c *pgxpool.Config) { c.ConnConfig.Tracer = q })
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		if tx, _ := httpdedup.Tx(r.Context()); r.Header.Get("X-Asks") != "" {
			tx.Conn()
		}
		http.Error(w, "no", http.StatusConflict)
	})
	sent := func(key string, change ...func(*http.Request)) int32 {
		before := q.sent.Load()
		require.Equal(t, http.StatusConflict, s.post(t, key, `{}`, change...).status)
		return q.sent.Load() - before
	}
	sent("warm")
	quiet := sent("k1")
	require.Equal(t, quiet+1, sent("k2", func(r *http.Request) { r.Header.Set("X-Asks", "1") }))
}
