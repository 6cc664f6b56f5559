package sqldedup_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/sqldedup"
	"github.com/tooldedup/dedup/tool"
)

// addNote is the effect of a tool behind any door.
func addNote(ctx context.Context, tx pgx.Tx, text string) (id int, err error) {
	return sqldedup.Run(ctx, tx, func(ctx context.Context, tx *sql.Tx) (id int, err error) {
		err = tx.QueryRowContext(ctx, `INSERT INTO notes (text) VALUES ($1) RETURNING id`, text).Scan(&id)
		return id, err
	})
}

// TestDoors writes through a *sql.Tx behind each door, twice.
func TestDoors(t *testing.T) {
	t.Parallel()

	t.Run("Tool", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tools := tool.NewRegistry(b.d, nil)
		run := func(ctx context.Context, tx pgx.Tx, in struct{ Text string }) (int, error) {
			return addNote(ctx, tx, in.Text)
		}
		require.NoError(t, tools.Add(tool.Tool[struct{ Text string }, int]{Name: "add_note", Class: tool.Write, Run: run}))
		for _, replayed := range []bool{false, true} {
			result, err := tools.Invoke(b.ctx, tool.Invocation{Scope: "acme", Session: "s", Turn: 1, CallID: "call_1", Tool: "add_note", Args: json.RawMessage(`{"Text": "text"}`)})
			require.NoError(t, err)
			require.JSONEq(t, "1", string(result.JSON))
			require.Equal(t, replayed, result.Replayed)
		}
		require.Equal(t, []string{"text"}, b.notes(t))
	})

	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		middleware, err := httpdedup.New(b.d, httpdedup.Options{Scope: func(*http.Request) (string, error) { return "acme", nil }})
		require.NoError(t, err)
		handler := middleware.Wrap("add_note", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tx, _ := httpdedup.Tx(r.Context())
			if _, err := addNote(r.Context(), tx, "text"); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}))
		for range 2 {
			request := httptest.NewRequest(http.MethodPost, "/notes", strings.NewReader(`{}`))
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Idempotency-Key", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`)
			got := httptest.NewRecorder()
			handler.ServeHTTP(got, request)
			require.Equal(t, http.StatusCreated, got.Code, got.Body)
		}
		require.Equal(t, []string{"text"}, b.notes(t))
	})

	t.Run("External", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tools, err := external.New(b.d, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = tools.Close(context.WithoutCancel(b.ctx)) })
		send, err := external.Add(tools, external.Tool[string, string]{
			Name:    "send",
			Perform: func(_ context.Context, _ external.Attempt, text string) (string, error) { return "id of " + text, nil },
			Finish: func(ctx context.Context, tx pgx.Tx, text, _ string) error {
				_, err := addNote(ctx, tx, "ends "+text)
				return err
			},
		})
		require.NoError(t, err)
		for range 2 {
			_, err := send.Do(b.ctx, dedup.Call{Scope: "acme", Key: "k"}, "mail")
			require.NoError(t, err)
		}
		require.Equal(t, []string{"ends mail"}, b.notes(t))
	})
}
