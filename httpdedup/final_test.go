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
	for name, unit := range map[string]string{"Markup": "<", "Separators": "\u2028\u2028 ", "Quotes": `"`, "Controls": "\x01", "Binary": "\xff"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, httpdedup.Options{})
			body := strings.Repeat(unit, 512<<10/len(unit))
			s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
				httpdedup.Final(r.Context())
				w.WriteHeader(http.StatusPaymentRequired)
				_, _ = w.Write([]byte(body))
			})
			for _, replayed := range []bool{false, true} {
				got := s.post(t, "k1", "")
				require.Empty(t, s.told())
				require.Equal(t, http.StatusPaymentRequired, got.status)
				require.Equal(t, body, got.body)
				require.Equal(t, replayed, got.replayed())
			}
		})
	}
}

// A handler that calls any fault of the database final does not make a deadlock so:
// it runs again. A fault that does not pass is stored.
func TestFinalAfterFailedStatement(t *testing.T) {
	t.Parallel()
	for state, wantRuns := range map[string]int32{"40P01": 2, "23505": 1} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			s := open(t, httpdedup.Options{})
			var runs atomic.Int32
			s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
				if runs.Add(1) > 1 {
					order(w, r)
					return
				}
				tx, _ := httpdedup.Tx(r.Context())
				if _, err := tx.Exec(r.Context(), `DO $$ BEGIN RAISE SQLSTATE '`+state+`'; END $$`); err != nil {
					httpdedup.Final(r.Context())
					http.Error(w, "taken", http.StatusConflict)
				}
			})
			first := s.post(t, "k1", `{"item": "lamp"}`)
			again := s.post(t, "k1", `{"item": "lamp"}`)
			require.Equal(t, map[int32]int{1: http.StatusConflict, 2: http.StatusCreated}[wantRuns], first.status)
			require.Equal(t, first.status, again.status)
			require.Equal(t, first.body, again.body)
			require.False(t, first.replayed())
			require.True(t, again.replayed())
			require.Equal(t, wantRuns, runs.Load())
			require.EqualValues(t, wantRuns-1, s.count(t, "orders"))
			require.Empty(t, s.told())
		})
	}
}
