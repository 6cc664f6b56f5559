package httpdedup_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
)

// A handler that answers 500 because of a deadlock runs again, behind the client's
// back, with the whole body.
func TestTransientFaultRunsAgain(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	var runs atomic.Int32
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		if runs.Add(1) < 3 {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("X-Failed", "yes")
			fail(w, r, "40P01")
			return
		}
		order(w, r)
	})
	got := s.post(t, "k1", `{"item": "lamp"}`)
	require.Equal(t, http.StatusCreated, got.status)
	require.False(t, got.replayed())
	require.Empty(t, got.header.Get("X-Failed"))
	require.EqualValues(t, 3, runs.Load())
	require.Equal(t, 1, s.count(t, "orders"))
}

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

// What the handler or the server does wrong is answered with 500, and told.
func TestInternal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    error
	}{
		"Commit": {func(w http.ResponseWriter, r *http.Request) {
			tx, _ := httpdedup.Tx(r.Context())
			_ = tx.Commit(r.Context())
			order(w, r)
		}, dedup.ErrInvalid},
		"IgnoredFailure": {func(w http.ResponseWriter, r *http.Request) {
			tx, _ := httpdedup.Tx(r.Context())
			_, _ = tx.Exec(r.Context(), `SELECT 1/0`)
			w.WriteHeader(http.StatusCreated)
		}, dedup.ErrInvalid},
		"OpenRows": {func(w http.ResponseWriter, r *http.Request) {
			tx, _ := httpdedup.Tx(r.Context())
			_, _ = tx.Query(r.Context(), `SELECT generate_series(1, 100000)`)
			w.WriteHeader(http.StatusCreated)
		}, dedup.ErrInvalid},
		"TooLarge": {func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 2000))
			if !errors.Is(err, httpdedup.ErrResponse) {
				panic("the write went through")
			}
		}, httpdedup.ErrResponse},
		"Nested": {func(w http.ResponseWriter, r *http.Request) {
			m, _ := r.Context().Value(nestedKey{}).(http.Handler)
			m.ServeHTTP(w, r)
		}, dedup.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, httpdedup.Options{MaxResponse: 1000})
			inner := s.m.Wrap("inner", http.HandlerFunc(order))
			wrapped := s.m.Wrap("create_order", c.handler)
			s.mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
				wrapped.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), nestedKey{}, inner)))
			})
			got := s.post(t, "k1", `{"item": "lamp"}`)
			require.Equal(t, http.StatusInternalServerError, got.status)
			require.Equal(t, "internal", got.problem(t).Type)
			told := s.told()
			require.Len(t, told, 1)
			require.ErrorIs(t, told[0], c.want)
			require.Zero(t, s.count(t, "orders"))
			require.Zero(t, s.count(t, "tool_dedup"))
		})
	}
}

type nestedKey struct{}

// An identity whose handler ended the transaction by itself is blocked, whatever
// the handler answered.
func TestBroken(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		tx, _ := httpdedup.Tx(r.Context())
		_, _ = tx.Conn().Exec(r.Context(), `INSERT INTO orders (item) VALUES ('half')`)
		_, _ = tx.Conn().Exec(r.Context(), `COMMIT`)
		w.WriteHeader(http.StatusInternalServerError)
	})
	s.mux.Handle("GET /operations/{tool}/{key}", s.m.Operations())
	for range 2 {
		got := s.post(t, "k1", `{"item": "lamp"}`)
		require.Equal(t, http.StatusInternalServerError, got.status)
		require.Equal(t, "internal", got.problem(t).Type)
		require.ErrorIs(t, errors.Join(s.told()...), dedup.ErrBroken)
	}
	require.Contains(t, s.do(t, http.MethodGet, "/operations/create_order/k1", "", "").body, `"state":"broken"`)
	require.Equal(t, 1, s.count(t, "orders"))
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
	require.ErrorIs(t, errors.Join(s.told()...), httpdedup.ErrStoredAnswer)
}

// A request whose context ends is told to come again: the client may still be
// there.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	running, finish := make(chan struct{}, 1), make(chan struct{})
	wrapped := s.m.Wrap("create_order", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running <- struct{}{}
		<-finish
		if _, err := insert(context.WithoutCancel(r.Context()), "lamp"); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	cancels := make(chan context.CancelFunc, 2)
	s.mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancels <- cancel
		wrapped.ServeHTTP(w, r.WithContext(ctx))
	})
	got := make(chan reply, 1)
	r := s.request(t, http.MethodPost, "/orders", "k1", `{"item": "lamp"}`)
	go func() {
		answer, _ := s.send(r)
		got <- answer
	}()
	wait(t, running)
	wait(t, cancels)()
	close(finish)
	answer := wait(t, got)
	require.Equal(t, http.StatusServiceUnavailable, answer.status)
	require.Equal(t, "unavailable", answer.problem(t).Type)
	require.Zero(t, s.count(t, "orders"))

	require.Equal(t, http.StatusCreated, s.post(t, "k1", `{"item": "lamp"}`).status)
	require.Empty(t, s.told())
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
