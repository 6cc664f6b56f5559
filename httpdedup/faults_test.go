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
func fail(w http.ResponseWriter, r *http.Request, statement string) {
	tx, _ := httpdedup.Tx(r.Context())
	if _, err := tx.Exec(r.Context(), statement); err == nil {
		panic("nothing was raised")
	}
	http.Error(w, "database trouble", http.StatusInternalServerError)
}

func raise(state string) string { return `DO $$ BEGIN RAISE SQLSTATE '` + state + `'; END $$` }

// A 500 or a final answer after a failed statement only reports that statement. If the fault may
// pass, the handler runs again and the client does not notice. Otherwise the client gets the
// handler's answer.
func TestFailedStatement(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	for _, c := range []struct {
		name, statement string
		final           bool
		status          int // of the first request
		replayed        bool
	}{
		{"Constraint", raise("23514"), false, http.StatusInternalServerError, false},
		{"FinalConstraint", raise("23505"), true, http.StatusConflict, true},
		{"FinalDeadlock", raise("40P01"), true, http.StatusCreated, true},
		{"LostConnection", `SELECT pg_terminate_backend(pg_backend_pid())`, false, http.StatusCreated, true},
	} {
		var runs atomic.Int32
		s.handle("POST /"+c.name, c.name, func(w http.ResponseWriter, r *http.Request) {
			if runs.Add(1) > 1 {
				order(w, r)
				return
			}
			if c.final {
				httpdedup.Final(r.Context())
				w.WriteHeader(http.StatusConflict)
			}
			fail(w, r, c.statement)
		})
		post := func() reply { return s.do(t, http.MethodPost, "/"+c.name, "k1", `{"item": "lamp"}`) }
		orders := s.count(t, "orders")
		first := post()
		require.Equal(t, c.status, first.status, c.name)
		require.False(t, first.replayed(), c.name)
		again := c.status == http.StatusCreated
		require.Equal(t, again, first.body != "database trouble\n", c.name)
		require.Equal(t, again, runs.Load() == 2, c.name)
		require.Equal(t, again, s.count(t, "orders") == orders+1, c.name)
		second := post()
		require.Equal(t, c.replayed, second.replayed(), c.name)
		require.Equal(t, c.replayed, second.body == first.body, c.name)
		require.Empty(t, s.told(), c.name)
	}
}

// A record that another door wrote under the same name is not an HTTP answer.
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
	require.ErrorContains(t, errors.Join(s.told()...), "is not an HTTP answer")
}

// TestLongBodyAtTheLimit sends bodies of the maximum size. JSON just below dedup's limit exceeds it
// when its members become arguments.
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
