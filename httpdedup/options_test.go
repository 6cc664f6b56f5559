package httpdedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	for name, change := range map[string]func(*httpdedup.Options){
		"Scope":          func(o *httpdedup.Options) { o.Scope = nil },
		"MaxBody":        func(o *httpdedup.Options) { o.MaxBody = -1 },
		"ReusedStatus":   func(o *httpdedup.Options) { o.ReusedStatus = 404 },
		"ReplayedHeader": func(o *httpdedup.Options) { o.ReplayedHeader = "Set-Cookie" },
		"RetryAfter":     func(o *httpdedup.Options) { o.RetryAfter = -1 },
		"Retention":      func(o *httpdedup.Options) { o.Retention.Result = 1 },
		"OperationsPath": func(o *httpdedup.Options) { o.OperationsPath = "%" },
		"d":              func(*httpdedup.Options) {}, // d is nil
	} {
		opts := httpdedup.Options{Scope: tenant}
		change(&opts)
		of := d
		if name == "d" {
			of = nil
		}
		_, err := httpdedup.New(of, opts)
		var refused *dedup.InvalidError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, name, refused.Field)
	}
	for _, header := range []string{"set-cookie", "Date", "Content-Length", "Idempotency-Replayed", "Dedup-Kept-Until", "WWW-Authenticate", "connection", ""} {
		_, err := httpdedup.New(d, httpdedup.Options{Scope: tenant, Headers: []string{"ETag", header}})
		require.ErrorIs(t, err, dedup.ErrInvalid, header)
	}
	for _, opts := range []httpdedup.Options{
		{MaxBody: math.MaxInt64, RetryAfter: time.Hour, Headers: []string{}},
		{MaxBody: 1, RetryAfter: 1, MaxWait: -1, ReusedStatus: 409},
	} {
		opts.Scope = tenant
		_, err := httpdedup.New(d, opts)
		require.NoError(t, err)
	}
}

// starts records the starts of calls.
type starts struct {
	dedup.Tracer
	calls []dedup.CallData
}

func (s *starts) TraceCallStart(ctx context.Context, data dedup.CallData) context.Context {
	s.calls = append(s.calls, data)
	return ctx
}

// A fault that New or Wrap finds starts no call: nothing is counted or traced.
func TestSetUpMakesNoCall(t *testing.T) {
	t.Parallel()
	seen := &starts{Tracer: dedup.MultiTracer()}
	d, err := dedup.New(pgtest.New(t).Pool(t), &dedup.Options{Tracer: seen})
	require.NoError(t, err)
	m, err := httpdedup.New(d, httpdedup.Options{Scope: tenant, Retention: dedup.Retention{Result: 30 * 24 * time.Hour}})
	require.NoError(t, err)
	m.Wrap("create_order", http.NotFoundHandler())
	require.Panics(t, func() { m.Wrap("a\nb", http.NotFoundHandler()) })
	require.Empty(t, d.Stats().Calls)
	require.Empty(t, seen.calls)
}

// Without OnError the error is logged, with only the method and the pattern of the request.
func TestDefaultOnErrorLogs(t *testing.T) { //nolint:paralleltest // it replaces the process's logger
	var logged bytes.Buffer
	previous, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&logged, nil)))
	t.Cleanup(func() { // SetDefault also changes package log, and does not change it back
		slog.SetDefault(previous)
		log.SetOutput(out)
		log.SetFlags(flags)
	})
	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	m, err := httpdedup.New(d, httpdedup.Options{Scope: tenant})
	require.NoError(t, err)

	r := httptest.NewRequest(http.MethodPost, "/orders", nil)
	r.Header.Set("Authorization", "Bearer acme")
	r.Header.Set("Idempotency-Key", "k1")
	w := httptest.NewRecorder()
	m.Wrap("", http.NotFoundHandler()).ServeHTTP(w, r)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	var line map[string]any
	require.NoError(t, json.Unmarshal(logged.Bytes(), &line))
	require.Equal(t, "ERROR", line["level"])
	require.ElementsMatch(t, []string{"time", "level", "msg", "method", "pattern", "tool", "error"}, slices.Collect(maps.Keys(line)))
}
