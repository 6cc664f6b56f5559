package httpdedup_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// FuzzRequest sends anything that net/http reads as a request, twice, through the middleware to a
// handler that stores one row, with a real database. Every answer must be a documented one. A
// refused request must leave nothing. A request that ran must leave one row and one record. The
// second answer must equal the first.
func FuzzRequest(f *testing.F) {
	for _, seed := range malformedRequests() {
		f.Add([]byte(seed.wire()))
	}
	f.Add([]byte(malformed{}.wire()))
	f.Add([]byte(malformed{method: "GET", key: "-"}.wire()))
	f.Add([]byte(malformed{target: "/orders?status=404"}.wire()))
	f.Add([]byte(malformed{target: "/orders?status=402&final=1", typ: "text/plain", body: "\xff"}.wire()))
	f.Add([]byte(malformed{target: "/orders?status=99"}.wire()))

	pool := pgtest.New(f).Pool(f)
	_, err := pool.Exec(f.Context(), `CREATE TABLE orders (item text)`)
	require.NoError(f, err)
	d, err := dedup.New(pool, nil)
	require.NoError(f, err)
	var told error
	m, err := httpdedup.New(d, httpdedup.Options{
		Scope: tenant, MaxBody: 1 << 16,
		OnError: func(_ *http.Request, err error) { told = err },
	})
	require.NoError(f, err)
	h := m.Wrap("orders", http.HandlerFunc(fuzzHandler))

	f.Fuzz(func(t *testing.T, wire []byte) {
		_, err := pool.Exec(t.Context(), `WITH o AS (DELETE FROM orders) DELETE FROM tool_dedup`)
		require.NoError(t, err)
		told = nil
		first, safe, ok := through(t, h, wire)
		if !ok {
			return // net/http refuses it
		}
		var orders, records int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM tool_dedup)`).Scan(&orders, &records))
		require.False(t, first.replayed())
		// A scope that dedup refuses is the only server fault here.
		if told != nil {
			var invalid *dedup.InvalidError
			require.ErrorAs(t, told, &invalid)
			require.Equal(t, "Scope", invalid.Field)
		}
		switch handled := first.header.Get("X-Handled"); {
		case safe:
			require.Equal(t, "outside", handled)
			require.Zero(t, orders+records)
		case handled == "":
			p := first.problem(t)
			require.Contains(t, []string{"missing-key", "invalid-key", "invalid-request", "invalid-body", "body-too-large", "no-scope", "internal"}, p.Type)
			require.Equal(t, p.Type == "internal", told != nil)
			require.Zero(t, orders+records)
		default:
			kept := first.status < 400 || first.header.Get("X-Final") != "" && first.status < 500
			require.Equal(t, kept, records == 1)
			require.Equal(t, first.status < 400, orders == 1)
			again, _, _ := through(t, h, wire)
			require.Equal(t, kept, again.replayed())
			require.Equal(t, first.status, again.status)
			require.Equal(t, first.body, again.body)
			require.Equal(t, first.header.Get("Content-Type"), again.header.Get("Content-Type"))
		}
	})
}

// through sends the bytes of a request through a handler. safe reports that the method only reads.
func through(t *testing.T, h http.Handler, wire []byte) (got reply, safe, ok bool) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
	if err != nil {
		return reply{}, false, false
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(t.Context()))
	safe = slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "QUERY"}, r.Method)
	return reply{w.Code, w.Header(), w.Body.String()}, safe, true
}

// fuzzHandler answers as the query asks, with the request that it read.
func fuzzHandler(w http.ResponseWriter, r *http.Request) {
	tx, ok := httpdedup.Tx(r.Context())
	if !ok {
		w.Header().Set("X-Handled", "outside")
		return
	}
	w.Header().Set("X-Handled", "inside")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	if _, err := tx.Exec(r.Context(), `INSERT INTO orders (item) VALUES ($1)`, strconv.FormatBool(json.Valid(body))); err != nil {
		panic(err)
	}
	if r.URL.Query().Get("final") != "" {
		w.Header().Set("X-Final", "yes")
		httpdedup.Final(r.Context())
	}
	status := map[string]int{"204": 204, "303": 303, "402": 402, "404": 404, "500": 500}[r.URL.Query().Get("status")]
	if status == 0 {
		status = http.StatusCreated
	}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil && status != http.StatusNoContent {
		panic(err)
	}
	_, _ = io.WriteString(w, strings.Repeat("<", len(body)%7))
}
