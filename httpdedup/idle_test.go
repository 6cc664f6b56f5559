package httpdedup_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
)

// A handler that keeps its transaction idle for too long, as over a slow call to
// another service, is not run again and again: the call may be what must not be.
func TestIdleHandlerRunsOnce(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	d, err := dedup.New(s.pool, &dedup.Options{IdleTimeout: time.Hour, Retry: dedup.RetryPolicy{MaxAttempts: 3}})
	require.NoError(t, err)
	var told atomic.Pointer[error]
	s.m, err = httpdedup.New(d, httpdedup.Options{Scope: tenant, OnError: func(_ *http.Request, err error) { told.Store(&err) }})
	require.NoError(t, err)
	var runs atomic.Int32
	var limit string
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		tx, _ := httpdedup.Tx(r.Context())
		pid := tx.Conn().PgConn().PID()
		// Over in here alone, however slow the machine is.
		if err := tx.QueryRow(r.Context(), `SELECT set_config(name, '1', true), setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'`).Scan(nil, &limit); err != nil {
			panic(err)
		}
		for ended := false; !ended; { // until the server has ended the session
			err := s.pool.QueryRow(r.Context(), `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, pid).Scan(&ended)
			if err != nil {
				panic(err)
			}
		}
		order(w, r)
	})
	got := s.post(t, "k1", `{"item": "lamp"}`)
	require.EqualValues(t, 1, runs.Load())
	require.Equal(t, "3600000", limit)
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.ErrorIs(t, *told.Load(), dedup.ErrInvalid)
	require.Zero(t, s.count(t, "tool_dedup"))
}
