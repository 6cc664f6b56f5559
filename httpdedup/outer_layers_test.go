package httpdedup_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// A body that somebody has read before the middleware cannot be compared. It must
// not count as none: then every form under one key would be the same request.
func TestBodyReadBefore(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		outer func(*http.Request)
		scope func(*http.Request)
		size  int64
	}{
		"Form":          {outer: func(r *http.Request) { _ = r.ParseForm() }},
		"Chunked":       {outer: func(r *http.Request) { _ = r.ParseForm() }, size: -1},
		"DrainedChunks": {outer: func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, size: -1},
		"Sniffed":       {outer: func(r *http.Request) { _, _ = io.ReadFull(r.Body, make([]byte, 5)) }},
		"Drained":       {outer: func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }},
		"Scope":         {scope: func(r *http.Request) { _ = r.FormValue("item") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, httpdedup.Options{Scope: func(r *http.Request) (string, error) {
				if c.scope != nil {
					c.scope(r)
				}
				return tenant(r)
			}})
			wrapped := s.m.Wrap("create_order", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := insert(r.Context(), r.FormValue("item")); err != nil {
					panic(err)
				}
				_, _ = io.WriteString(w, r.FormValue("item"))
			}))
			s.mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
				if c.outer != nil {
					c.outer(r)
				}
				wrapped.ServeHTTP(w, r)
			})
			for _, body := range []string{"item=lamp", "item=chair"} {
				got := s.post(t, "k1", body, func(r *http.Request) {
					r.Header.Set("Content-Type", form)
					if c.size != 0 {
						r.ContentLength = c.size
					}
				})
				require.Equal(t, http.StatusInternalServerError, got.status, got.body)
				require.Equal(t, "internal", got.problem(t).Type)
				told := s.told()
				require.Len(t, told, 1)
				require.ErrorIs(t, told[0], httpdedup.ErrBodyRead)
			}
			require.Zero(t, s.count(t, "orders"))
			require.Zero(t, s.count(t, "tool_dedup"))
		})
	}
}

// compressed is a layer that compresses for whoever asks for it, and says so before
// it passes the request on, as gorilla's CompressHandler does. Some do not think of
// the handler's Content-Length.
func compressed(next http.Handler, thinksOfLength bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		defer zip.Close()
		next.ServeHTTP(compressor{w, zip, thinksOfLength}, r)
	})
}

type compressor struct {
	http.ResponseWriter
	zip            *gzip.Writer
	thinksOfLength bool
}

func (c compressor) WriteHeader(status int) {
	if c.thinksOfLength {
		c.Header().Del("Content-Length")
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c compressor) Write(b []byte) (int, error) { return c.zip.Write(b) }

// An encoding that a layer around the middleware is about to add belongs to that
// layer's answer to one request. What is stored is not encoded, and must not be
// replayed as if it were.
func TestOuterEncodingIsNotStored(t *testing.T) {
	t.Parallel()
	for _, thinksOfLength := range []bool{true, false} {
		s := open(t, httpdedup.Options{})
		s.mux.Handle("POST /orders", compressed(s.m.Wrap("create_order", http.HandlerFunc(order)), thinksOfLength))
		for i, accepted := range []string{"gzip", "identity", "gzip"} {
			got := s.post(t, "k1", `{"item": "lamp"}`, func(r *http.Request) { r.Header.Set("Accept-Encoding", accepted) })
			require.Equal(t, http.StatusCreated, got.status)
			require.Equal(t, i > 0, got.replayed())
			if accepted == "gzip" {
				require.Equal(t, "gzip", got.header.Get("Content-Encoding"))
				got.body = unzipped(t, got.body)
			} else {
				require.Empty(t, got.header.Values("Content-Encoding"), "it is not encoded")
			}
			require.Equal(t, "{\"id\":1,\"item\":\"lamp\"}\n", got.body)
		}
	}
}

func unzipped(t *testing.T, text string) string {
	t.Helper()
	zip, err := gzip.NewReader(strings.NewReader(text))
	require.NoError(t, err)
	plain, err := io.ReadAll(zip)
	require.NoError(t, err)
	return string(plain)
}

// The path is the one that was sent, whatever a layer around has cut off.
func TestStrippedPath(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	wrapped := s.m.Wrap("create_order", http.HandlerFunc(order))
	s.mux.Handle("/north/", http.StripPrefix("/north", wrapped))
	s.mux.Handle("/south/", http.StripPrefix("/south", wrapped))
	require.Equal(t, http.StatusCreated, s.do(t, http.MethodPost, "/north/orders", "k1", `{"item": "lamp"}`).status)
	require.True(t, s.do(t, http.MethodPost, "/north/orders", "k1", `{"item": "lamp"}`).replayed())
	got := s.do(t, http.MethodPost, "/south/orders", "k1", `{"item": "lamp"}`)
	require.Equal(t, http.StatusUnprocessableEntity, got.status)
	require.Equal(t, []string{"Path"}, got.problem(t).Changed)
}
