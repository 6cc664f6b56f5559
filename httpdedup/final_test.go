package httpdedup_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// Half of dedup's MaxResultBytes fits, whatever bytes a final answer is made of.
func TestFinalOfAnyBytes(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	for name, unit := range map[string]string{"Markup": "<", "Separators": "\u2028\u2028 ", "Quotes": `"`, "Controls": "\x01", "Binary": "\xff"} {
		body := strings.Repeat(unit, 512<<10/len(unit))
		s.handle("POST /"+name, name, func(w http.ResponseWriter, r *http.Request) {
			httpdedup.Final(r.Context())
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = w.Write([]byte(body))
		})
		for _, replayed := range []bool{false, true} {
			got := s.do(t, http.MethodPost, "/"+name, "k1", "")
			require.Empty(t, s.told(), name)
			require.Equal(t, http.StatusPaymentRequired, got.status, name)
			require.True(t, body == got.body, name) //nolint:testifylint // which would print all of it
			require.Equal(t, replayed, got.replayed(), name)
		}
	}
}

// A handler that calls any fault of the database final does not make a deadlock so:
// it runs again. A fault that does not pass is stored.
func TestFinalAfterFailedStatement(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	for _, c := range []struct {
		state                string
		runs, status, orders int
	}{
		{"23505", 1, http.StatusConflict, 0},
		{"40P01", 2, http.StatusCreated, 1},
	} {
		var runs atomic.Int32
		s.handle("POST /"+c.state, c.state, func(w http.ResponseWriter, r *http.Request) {
			if runs.Add(1) > 1 {
				order(w, r)
				return
			}
			tx, _ := httpdedup.Tx(r.Context())
			if _, err := tx.Exec(r.Context(), `DO $$ BEGIN RAISE SQLSTATE '`+c.state+`'; END $$`); err != nil {
				httpdedup.Final(r.Context())
				http.Error(w, "taken", http.StatusConflict)
			}
		})
		first := s.do(t, http.MethodPost, "/"+c.state, "k1", `{"item": "lamp"}`)
		again := s.do(t, http.MethodPost, "/"+c.state, "k1", `{"item": "lamp"}`)
		require.Equal(t, c.status, first.status, c.state)
		require.Equal(t, first.status, again.status, c.state)
		require.Equal(t, first.body, again.body, c.state)
		require.False(t, first.replayed(), c.state)
		require.True(t, again.replayed(), c.state)
		require.EqualValues(t, c.runs, runs.Load(), c.state)
		require.Equal(t, c.orders, s.count(t, "orders"), c.state)
		require.Empty(t, s.told(), c.state)
	}
}
