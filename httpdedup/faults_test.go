package httpdedup_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
)

// fail raises an error in the transaction, and answers with 500.
func fail(w http.ResponseWriter, r *http.Request, state string) {
	tx, _ := httpdedup.Tx(r.Context())
	if _, err := tx.Exec(r.Context(), `DO $$ BEGIN RAISE SQLSTATE '`+state+`'; END $$`); err == nil {
		panic("nothing was raised")
	}
	http.Error(w, "database trouble", http.StatusInternalServerError)
}

// Any other failed statement is answered as the handler answers it, once.
func TestFailedStatement(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	var runs atomic.Int32
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		fail(w, r, "23514")
	})
	got := s.post(t, "k1", `{"item": "lamp"}`)
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.Equal(t, "database trouble\n", got.body)
	require.EqualValues(t, 1, runs.Load())
	require.Empty(t, s.told())
	require.Zero(t, s.count(t, "tool_dedup"))
}

// An answer of 500 over a connection that is lost says no more than that: the handler runs
// again, and the client does not learn of it.
func TestLostConnectionRunsAgain(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	var runs atomic.Int32
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		if runs.Add(1) == 1 {
			tx, _ := httpdedup.Tx(r.Context())
			_, _ = tx.Exec(r.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
			http.Error(w, "database trouble", http.StatusInternalServerError)
			return
		}
		order(w, r)
	})
	require.Equal(t, http.StatusCreated, s.post(t, "k1", `{"item": "lamp"}`).status)
	require.EqualValues(t, 2, runs.Load())
	require.Equal(t, 1, s.count(t, "orders"))
	require.Empty(t, s.told())
}

// What a handler does wrong is answered with 500, and told. Nothing of it stays.
// TestUnstorableAnswers has the answers that cannot be stored.
func TestInternal(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	for name, handler := range map[string]http.HandlerFunc{
		"Nested": s.m.Wrap("inner", http.HandlerFunc(order)).ServeHTTP,
		"IgnoredFailure": func(w http.ResponseWriter, r *http.Request) {
			tx, _ := httpdedup.Tx(r.Context())
			_, _ = tx.Exec(r.Context(), `SELECT 1/0`)
			w.WriteHeader(http.StatusCreated)
		},
	} {
		s.handle("POST /"+name, name, handler)
		got := s.do(t, http.MethodPost, "/"+name, "k1", `{"item": "lamp"}`)
		require.Equal(t, http.StatusInternalServerError, got.status, name)
		require.Equal(t, "internal", got.problem(t).Type, name)
		require.ErrorIs(t, errors.Join(s.told()...), dedup.ErrInvalid, name)
	}
	require.Zero(t, s.count(t, "orders"))
	require.Zero(t, s.count(t, "tool_dedup"))
}

// A record that another door has made under the same name holds no HTTP answer.
func TestStrangeRecord(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	call := dedup.Call{Scope: "acme", Tool: "create_order", Key: "k1", Args: map[string]string{
		"Method": "POST", "Host": strings.TrimPrefix(s.srv.URL, "http://"), "Path": "/orders",
	}}
	_, err := dedup.Do(t.Context(), s.d, call, func(context.Context, pgx.Tx) (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, "internal", s.post(t, "k1", "").problem(t).Type)
	require.ErrorContains(t, errors.Join(s.told()...), "is no HTTP answer")
}

// JSON just below dedup's limit is beyond it once its members are arguments.
// TestLongBodyAtTheLimit sends bodies of as many bytes as are taken.
func TestLongBodyAtTheLimit(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{MaxBody: 2 * dedup.MaxArgsSize})
	s.handle("POST /orders", "create_order", func(http.ResponseWriter, *http.Request) {})
	member := func(size int) string { return `{"a": "` + strings.Repeat("x", size) + `"}` }
	room := dedup.MaxArgsSize - len(member(0))
	got := s.post(t, "k1", member(room))
	require.Equal(t, "invalid-body", got.problem(t).Type)
	require.Less(t, len(got.body), 1000)
	require.Equal(t, http.StatusOK, s.post(t, "k1", member(room-1000)).status)
	require.Empty(t, s.told())
}
