package httpdedup_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
)

type operation struct {
	State     string
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	ForgetAt  time.Time `json:"forget_at"`
	Response  *struct {
		Status  int
		Headers http.Header
		Body    json.RawMessage
		Text    string `json:"body_text"`
		Base64  string `json:"body_base64"`
	}
	Result  json.RawMessage
	Refusal *struct{ Message, Code string }
}

func (s *shop) operation(t *testing.T, tool, key string) operation {
	t.Helper()
	got := s.do(t, http.MethodGet, "/operations/"+url.PathEscape(tool)+"/"+url.PathEscape(key), "", "")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	var op operation
	require.NoError(t, json.Unmarshal([]byte(got.body), &op))
	return op
}

func TestOperations(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.mux.Handle("GET /operations/{tool}/{key}", s.m.Operations())
	s.handle("POST /orders", "", order)
	s.handle("POST /declined", "charge", func(w http.ResponseWriter, r *http.Request) {
		httpdedup.Final(r.Context())
		http.Error(w, "declined", http.StatusPaymentRequired)
	})
	s.handle("POST /blob", "blob", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("\"\xff\"")) })
	s.handle("POST /empty", "empty", func(http.ResponseWriter, *http.Request) {})

	const key = `a/b "c"?%`
	quoted := func(r *http.Request) { r.Header.Set("Idempotency-Key", `"a/b \"c\"?%"`) }
	unknown := s.do(t, http.MethodGet, "/operations/charge/k1", "", "")
	require.Equal(t, http.StatusNotFound, unknown.status)
	require.Equal(t, "unknown-operation", unknown.problem(t).Type)
	require.Equal(t, "not_found", unknown.problem(t).State)

	first := s.post(t, "", `{"item": "lamp"}`, quoted)
	op := s.operation(t, "POST /orders", key)
	require.Equal(t, "done", op.State)
	require.JSONEq(t, first.body, string(op.Response.Body))
	require.Equal(t, http.StatusCreated, op.Response.Status)
	require.Equal(t, "/orders/1", op.Response.Headers.Get("Location"))
	require.Empty(t, op.Response.Headers.Get("Set-Cookie"))
	require.InDelta(t, 24*time.Hour, op.ExpiresAt.Sub(op.CreatedAt), float64(time.Millisecond))
	require.True(t, op.ForgetAt.After(op.ExpiresAt))
	strangers := s.do(t, http.MethodGet, "/operations/POST%20%2Forders/"+url.PathEscape(key), "", "", as("globex"))
	require.Equal(t, unknown.body, strangers.body, "another's is as one that never was")

	s.do(t, http.MethodPost, "/declined", "k1", "")
	op = s.operation(t, "charge", "k1")
	require.Equal(t, "refused", op.State)
	require.Equal(t, http.StatusPaymentRequired, op.Response.Status)
	require.Equal(t, "declined\n", op.Response.Text)
	require.Nil(t, op.Refusal)

	s.do(t, http.MethodPost, "/blob", "k1", "")
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte("\"\xff\"")), s.operation(t, "blob", "k1").Response.Base64)
	s.do(t, http.MethodPost, "/empty", "k1", "")
	op = s.operation(t, "empty", "k1")
	require.Equal(t, http.StatusOK, op.Response.Status)
	require.Empty(t, op.Response.Body)

	// Records of other doors are reported unchanged.
	call := dedup.Call{Scope: "acme", Tool: "import", Key: "k1"}
	_, err := dedup.Do(t.Context(), s.d, call, func(context.Context, pgx.Tx) (map[string]int, error) { return map[string]int{"rows": 3}, nil })
	require.NoError(t, err)
	require.JSONEq(t, `{"rows": 3}`, string(s.operation(t, "import", "k1").Result))
	call.Key = "k2"
	_, err = dedup.Do(t.Context(), s.d, call, func(context.Context, pgx.Tx) (int, error) { return 0, dedup.Final(errors.New("too late")) })
	require.ErrorIs(t, err, dedup.ErrRefused)
	op = s.operation(t, "import", "k2")
	require.Equal(t, "refused", op.State)
	require.Equal(t, "too late", op.Refusal.Message)

	s.pass(t, "2 days")
	op = s.operation(t, "charge", "k1")
	require.Equal(t, "expired", op.State)
	require.Nil(t, op.Response)
	s.pass(t, "2 years")
	require.Empty(t, s.told())
}

func TestOperationsRefuses(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.mux.Handle("/operations/", s.m.Operations())
	for _, c := range []struct {
		method, path string
		status       int
		problem      string
	}{
		{http.MethodPost, "/operations/charge/k1", http.StatusMethodNotAllowed, "method-not-allowed"},
		{http.MethodGet, "/operations/charge/", http.StatusBadRequest, "invalid-operation"},
		{http.MethodGet, "/operations/charge/%0A", http.StatusBadRequest, "invalid-operation"},
		{http.MethodGet, "/operations/charge/%FF", http.StatusBadRequest, "invalid-operation"},
		{http.MethodGet, "/operations/%00/k1", http.StatusBadRequest, "invalid-operation"},
		{http.MethodGet, "/operations/charge/" + longKey, http.StatusBadRequest, "invalid-operation"},
		{http.MethodGet, "/operations/charge/k1", http.StatusNotFound, "unknown-operation"},
	} {
		got := s.do(t, c.method, c.path, "k1", "")
		require.Equal(t, c.status, got.status, c.path)
		p := got.problem(t)
		require.Equal(t, c.problem, p.Type, c.path)
		if c.status == http.StatusMethodNotAllowed {
			require.Equal(t, "GET, HEAD", got.header.Get("Allow"))
		}
	}
	require.Equal(t, http.StatusNotFound, s.do(t, http.MethodHead, "/operations/charge/k1", "", "").status)
	s.pool.Close()
	require.Equal(t, http.StatusInternalServerError, s.do(t, http.MethodGet, "/operations/charge/k1", "", "").status)
	require.Len(t, s.told(), 1)
}
