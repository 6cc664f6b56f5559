package httpdedup_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// A body that an outer layer read cannot be compared. It must not count as empty: every form under
// one key would be the same request.
func TestBodyReadBefore(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	wrapped := s.m.Wrap("create_order", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := insert(r.Context(), r.FormValue("item")); err != nil {
			panic(err)
		}
		_, _ = io.WriteString(w, r.FormValue("item"))
	}))
	parse := func(r *http.Request) { _ = r.ParseForm() }
	drain := func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	sniff := func(r *http.Request) { _, _ = io.ReadFull(r.Body, make([]byte, 5)) }
	for name, c := range map[string]struct {
		outer func(*http.Request)
		size  int64
	}{
		"Form":         {outer: parse},
		"FormChunks":   {outer: parse, size: -1},
		"Sniffed":      {outer: sniff},
		"SniffedLimit": {outer: func(r *http.Request) { r.Body = http.MaxBytesReader(nil, r.Body, 100); sniff(r) }},
		"Drained":      {outer: drain},
		"DrainedOther": {outer: func(r *http.Request) { drain(r); r.Body = struct{ io.ReadCloser }{r.Body} }},
		"ClosedChunks": {outer: func(r *http.Request) { drain(r); _ = r.Body.Close() }, size: -1},
	} {
		s.mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
			c.outer(r)
			wrapped.ServeHTTP(w, r)
		})
		for _, body := range []string{"item=lamp", "item=chair"} {
			got := s.do(t, http.MethodPost, "/"+name, "k1", body, func(r *http.Request) {
				r.Header.Set("Content-Type", form)
				if c.size != 0 {
					r.ContentLength = c.size
				}
			})
			require.Equal(t, http.StatusInternalServerError, got.status, "%s: %s", name, got.body)
			require.Equal(t, "internal", got.problem(t).Type, name)
			told := s.told()
			require.Len(t, told, 1, name)
			require.ErrorContains(t, told[0], "was read before the middleware", name)
		}
	}
	require.Zero(t, s.count(t, "orders"))
	require.Zero(t, s.count(t, "tool_dedup"))
}

// Scope and Tool get a request without a body, so they cannot change the body.
func TestBodyIsKeptFromOptions(t *testing.T) {
	t.Parallel()
	read := func(r *http.Request) {
		if err := r.ParseForm(); err != nil || len(r.PostForm) > 0 {
			panic("a form was read")
		}
		if got, err := io.ReadAll(r.Body); err != nil || len(got) > 0 {
			panic("a body was read")
		}
		r.Body = io.NopCloser(strings.NewReader("another"))
	}
	s := open(t, httpdedup.Options{
		Scope: func(r *http.Request) (string, error) { read(r); return tenant(r) },
		Tool:  func(r *http.Request) string { read(r); return "create_order" },
	})
	s.handle("POST /orders", "", func(w http.ResponseWriter, r *http.Request) {
		if _, err := insert(r.Context(), r.FormValue("item")); err != nil {
			panic(err)
		}
		_, _ = io.WriteString(w, r.FormValue("item"))
	})
	post := func(body string, size int64) reply {
		return s.post(t, "k1", body, func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.ContentLength = size
		})
	}
	require.Equal(t, "lamp", post("item=lamp", 9).body)
	require.True(t, post("item=lamp", -1).replayed())
	require.Equal(t, http.StatusUnprocessableEntity, post("item=bowl", -1).status)

	s.mux.Handle("/operations/", s.m.Operations())
	asked := s.do(t, http.MethodGet, "/operations/create_order/k1", "", "item=lamp")
	require.Equal(t, http.StatusOK, asked.status)
	require.Empty(t, s.told())
}

// A body that an outer layer decompressed is compared decompressed, whatever Content-Length that
// layer left.
func TestBodyDecompressedBefore(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	wrapped := s.m.Wrap("create_order", http.HandlerFunc(order))
	for name, after := range map[string]func(*http.Request){
		"LengthKept": func(*http.Request) {},
		"HeaderKept": func(r *http.Request) { r.ContentLength = -1 },
		"HeaderGone": func(r *http.Request) { r.Header.Del("Content-Length") },
		"BothGone":   func(r *http.Request) { r.ContentLength = -1; r.Header.Del("Content-Length") },
		"Limited":    func(r *http.Request) { r.ContentLength = -1; r.Body = http.MaxBytesReader(nil, r.Body, 100) },
	} {
		s.mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Encoding") == "gzip" {
				unzip, err := gzip.NewReader(r.Body)
				if err != nil {
					panic(err)
				}
				r.Body = unzip
				r.Header.Del("Content-Encoding")
				after(r)
			}
			wrapped.ServeHTTP(w, r)
		})
		post := func(body string, zipped bool) reply {
			if zipped {
				return s.do(t, http.MethodPost, "/"+name, name, gzipped(t, body), func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") })
			}
			return s.do(t, http.MethodPost, "/"+name, name, body)
		}
		require.Equal(t, http.StatusCreated, post(`{"item": "lamp"}`, true).status, name)
		require.True(t, post(`{"item": "lamp"}`, true).replayed(), name)
		require.True(t, post(`{"item": "lamp"}`, false).replayed(), name)
		require.Equal(t, []string{"body.item"}, post(`{"item": "chair"}`, true).problem(t).Changed, name)
	}
	require.Empty(t, s.told())
	require.Equal(t, 5, s.count(t, "orders"))
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_, err := io.WriteString(zip, text)
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	return out.String()
}

// A 413 names the limit that was exceeded.
func TestBodyLimitOfAnOuterLayer(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{MaxBody: 1000})
	wrapped := s.m.Wrap("create_order", http.HandlerFunc(order))
	s.mux.Handle("POST /orders", http.MaxBytesHandler(wrapped, 100))
	for size, limit := range map[int]string{200: "100", 2000: "1000"} {
		got := s.post(t, "k1", `{"item": "`+strings.Repeat("x", size)+`"}`)
		require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
		require.Contains(t, got.problem(t).Detail, "exceeds "+limit+" bytes")
	}
	require.Zero(t, s.count(t, "tool_dedup"))
}
