package httpdedup_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

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

// What an inner layer would encode for the first request is stored, and replayed to
// requests that do not accept it. So it is not asked to encode.
func TestInnerEncodingIsNotStored(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.mux.Handle("POST /orders", s.m.Wrap("create_order", compressed(http.HandlerFunc(order), true)))
	for i, accepted := range []string{"gzip", "identity", ""} {
		got := s.post(t, "k1", `{"item": "lamp"}`, func(r *http.Request) { r.Header["Accept-Encoding"] = []string{accepted} })
		require.Equal(t, i > 0, got.replayed())
		require.Empty(t, got.header.Values("Content-Encoding"))
		require.Equal(t, "{\"id\":1,\"item\":\"lamp\"}\n", got.body)
	}
}

// A replay says by which headers its answer was chosen, as the first answer did, and
// keeps what the layers around say of theirs.
func TestVaryIsStored(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	wrapped := s.m.Wrap("create_order", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Vary", "Accept-Language")
		w.WriteHeader(http.StatusCreated)
	}))
	s.mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", r.Header.Get("X-Layer"))
		wrapped.ServeHTTP(w, r)
	})
	from := func(layer string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("X-Layer", layer) }
	}
	require.Equal(t, []string{"Origin", "Accept-Language"}, s.post(t, "k1", "", from("Origin")).header.Values("Vary"))
	require.Equal(t, []string{"Origin", "Accept-Language"}, s.post(t, "k1", "", from("Origin")).header.Values("Vary"))
	require.Equal(t, []string{"Cookie", "Origin", "Accept-Language"}, s.post(t, "k1", "", from("Cookie")).header.Values("Vary"))
}

// With AnyHost two shops of one service share their answers. TestReused has two hosts without it.
func TestAnyHost(t *testing.T) {
	t.Parallel()
	at := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	s := open(t, httpdedup.Options{AnyHost: true})
	s.handle("POST /orders", "create_order", order)
	const body = `{"item": "lamp"}`
	require.Equal(t, http.StatusCreated, s.post(t, "k1", body, at("shop-a.example")).status)
	require.True(t, s.post(t, "k1", body, at("shop-b.example")).replayed())
}

type accountKey struct{}

// authenticated is an authentication layer: it puts the account into the request's
// context.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, err := tenant(r)
		if err != nil {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, name)))
	})
}

// The README's layers do not replay to a client without credentials. Layers in the
// other order do, where the scope does not come from the authentication; where it
// does, they answer nobody.
func TestAuthenticationIsAround(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for _, layers := range []string{`authenticated(guard.Wrap("create_ticket", `, `authenticated(guard.Operations())`} {
		require.True(t, strings.Contains(string(readme), layers), "README.md lacks %s", layers) //nolint:testifylint // which would print all of it
	}

	byContext := func(r *http.Request) (string, error) {
		name, _ := r.Context().Value(accountKey{}).(string)
		return name, nil
	}
	byHeader := func(r *http.Request) (string, error) { return r.Header.Get("X-Account"), nil }
	const body = `{"item": "lamp"}`
	anonymous := func(r *http.Request) {
		r.Header.Del("Authorization")
		r.Header.Set("X-Account", "acme")
	}
	known := func(r *http.Request) { r.Header.Set("X-Account", "acme") }
	for name, c := range map[string]struct {
		scope         func(*http.Request) (string, error)
		layers        func(*shop) http.Handler
		first, replay int
	}{
		"Around":         {byContext, func(s *shop) http.Handler { return authenticated(s.m.Wrap("create_order", http.HandlerFunc(order))) }, 201, 401},
		"AroundByHeader": {byHeader, func(s *shop) http.Handler { return authenticated(s.m.Wrap("create_order", http.HandlerFunc(order))) }, 201, 401},
		"Inside":         {byContext, func(s *shop) http.Handler { return s.m.Wrap("create_order", authenticated(http.HandlerFunc(order))) }, 403, 403},
		"InsideByHeader": {byHeader, func(s *shop) http.Handler { return s.m.Wrap("create_order", authenticated(http.HandlerFunc(order))) }, 201, 201},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, httpdedup.Options{Scope: c.scope})
			s.mux.Handle("POST /orders", c.layers(s))
			s.mux.Handle("GET /operations/{tool}/{key}", authenticated(s.m.Operations()))
			require.Equal(t, c.first, s.post(t, "k1", body, known).status)
			require.Equal(t, c.first == 201, s.post(t, "k1", body, known).replayed())
			got := s.post(t, "k1", body, anonymous)
			require.Equal(t, c.replay, got.status)
			require.Equal(t, c.replay == 201, got.replayed())
			require.Equal(t, 401, s.do(t, http.MethodGet, "/operations/create_order/k1", "", "", anonymous).status)
		})
	}
}
