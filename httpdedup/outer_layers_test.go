package httpdedup_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// compressed is an outer layer that compresses if the client accepts it. Like gorilla's
// CompressHandler it sets Content-Encoding before it passes the request on. Some such layers ignore
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

// An outer layer's encoding belongs to its answer to one request. The stored answer is not encoded,
// and a replay must not claim that it is. An inner layer is not asked to encode, because its
// encoding would be replayed to requests that do not accept it.
func TestEncodingIsNotStored(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	handler := http.HandlerFunc(order)
	for name, layers := range map[string]http.Handler{
		"Outer":               compressed(s.m.Wrap("outer", handler), true),
		"OuterWithoutThought": compressed(s.m.Wrap("thoughtless", handler), false),
		"Inner":               s.m.Wrap("inner", compressed(handler, true)),
	} {
		s.mux.Handle("POST /"+name, layers)
		var first string
		for i, accepted := range []string{"gzip", "identity", "gzip", ""} {
			got := s.do(t, http.MethodPost, "/"+name, "k1", `{"item": "lamp"}`, func(r *http.Request) { r.Header["Accept-Encoding"] = []string{accepted} })
			require.Equal(t, http.StatusCreated, got.status, name)
			require.Equal(t, i > 0, got.replayed(), name)
			if name != "Inner" && accepted == "gzip" {
				require.Equal(t, "gzip", got.header.Get("Content-Encoding"), name)
				got.body = unzipped(t, got.body)
			} else {
				require.Empty(t, got.header.Values("Content-Encoding"), name)
			}
			if i == 0 {
				first = got.body
				require.Contains(t, first, `"item":"lamp"}`, name)
			}
			require.Equal(t, first, got.body, name)
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

// The path that counts is the one that was sent, even if an outer layer cut it.
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

// With AnyHost two hosts of one service share their answers. TestReused has two hosts without it.
func TestAnyHost(t *testing.T) {
	t.Parallel()
	at := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	s := open(t, httpdedup.Options{AnyHost: true})
	s.handle("POST /orders", "create_order", order)
	const body = `{"item": "lamp"}`
	require.Equal(t, http.StatusCreated, s.post(t, "k1", body, at("shop-a.example")).status)
	require.True(t, s.post(t, "k1", body, at("shop-b.example")).replayed())
}

// The guide puts authentication around the middleware: a replay is sent without the handler.
func TestAuthenticationIsAround(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guide.md")
	require.NoError(t, err)
	for _, layers := range []string{`authenticated(middleware.Wrap("create_ticket", `, `authenticated(middleware.Operations())`} {
		require.True(t, strings.Contains(string(guide), layers), "docs/guide.md lacks %s", layers) //nolint:testifylint // require.Contains would print all of it
	}
}
