package httpdedup_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
)

// The first answer and its replay equal the answer that net/http alone would send.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.srv.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	handlers := map[string]http.HandlerFunc{
		"Nothing": func(http.ResponseWriter, *http.Request) {},
		"Sniffed": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"NoType": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "<html>")
		},
		"Encoded": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br") // Go's client does not decode it
			_, _ = w.Write([]byte{0x1f, 0x8b, 0, 0xff})
		},
		"NoContent": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		},
		"NotModified": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) },
		"Redirect":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/orders/1", http.StatusSeeOther) },
		"Twice": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"1"`)
			w.WriteHeader(http.StatusAccepted)
			w.Header().Set("ETag", `"2"`)
			w.WriteHeader(http.StatusOK)
		},
		"Several": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Link", "</a>; rel=next")
			w.Header().Add("Link", "</b>; rel=prev")
			w.Header().Set("Content-Length", "3")
			_, _ = io.WriteString(w, "abc")
		},
		"Text": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "\"\\\n<&>\u2028\x00 é") },
		"Large": func(w http.ResponseWriter, _ *http.Request) {
			for range 512 {
				_, _ = io.WriteString(w, strings.Repeat(`"`, 1<<10))
			}
		},
	}
	// A body of half of dedup's MaxResultBytes fits, whatever its bytes, in a final answer too.
	for name, unit := range map[string]string{"Markup": "<", "Separators": "\u2028\u2028 ", "Quotes": `"`, "Controls": "\x01", "Binary": "\xff\x00\x01\x02"} {
		handlers["Final"+name] = func(w http.ResponseWriter, r *http.Request) {
			httpdedup.Final(r.Context())
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = io.WriteString(w, strings.Repeat(unit, 512<<10/len(unit)))
		}
	}
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			s.mux.HandleFunc("POST /plain/"+name, handler)
			s.handle("POST /"+name, name, handler)
			plain := s.do(t, http.MethodPost, "/plain/"+name, "k1", "")
			first := s.do(t, http.MethodPost, "/"+name, "k1", "")
			again := s.do(t, http.MethodPost, "/"+name, "k1", "")
			require.Empty(t, s.told())
			require.False(t, first.replayed())
			require.True(t, again.replayed())
			for _, got := range []reply{first, again} {
				require.Equal(t, plain.status, got.status)
				require.True(t, plain.body == got.body) //nolint:testifylint // require.Equal would print all of it
				for _, h := range []http.Header{plain.header, got.header} {
					for _, volatile := range []string{"Date", "Idempotency-Replayed", "Dedup-Kept-Until", "Content-Length"} {
						h.Del(volatile) // net/http chunks a long body
					}
				}
				require.Equal(t, plain.header, got.header)
			}
		})
	}
}

// A handler's fault, and an answer that cannot be stored, get 500 and are reported to OnError.
// Nothing is committed.
func TestUnstorableAnswers(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		reason  string
	}{
		"Processing": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProcessing) }, "102 that cannot be stored"},
		"EarlyHints": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) }, "103"},
		"Switching":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) }, "handed over"},
		"Status600":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(600) }, "600"},
		"Trailer":    {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Trailer", "X-Sum") }, "trailers"},
		"LateTrailer": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			w.Header().Set(http.TrailerPrefix+"X", "1")
		}, "trailers"},
		"Length":     {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "5") }, "Content-Length"},
		"HeaderUTF8": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/\xff") }, "Location"},
		"TooLarge": {func(w http.ResponseWriter, _ *http.Request) {
			if _, err := w.Write(make([]byte, 512<<10+1)); !errors.Is(err, dedup.ErrInvalid) {
				panic("the write went through")
			}
		}, "524288 bytes"},
		"Error":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(101); http.Error(w, "cannot", 500) }, "101"},
		"Nested": {s.m.Wrap("inner", http.HandlerFunc(order)).ServeHTTP, "inside an effect"},
		"IgnoredFailure": {func(w http.ResponseWriter, r *http.Request) {
			tx, _ := httpdedup.Tx(r.Context())
			_, _ = tx.Exec(r.Context(), `SELECT 1/0`)
			w.WriteHeader(http.StatusCreated)
		}, "transaction"},
	} {
		s.handle("POST /"+name, name, func(w http.ResponseWriter, r *http.Request) {
			if _, err := insert(r.Context(), "rolled back"); err != nil {
				panic(err)
			}
			c.handler(w, r)
		})
		require.Equal(t, "internal", s.do(t, http.MethodPost, "/"+name, "k1", `{"item": "lamp"}`).problem(t).Type, name)
		told := s.told()
		require.Len(t, told, 1, name)
		require.ErrorIs(t, told[0], dedup.ErrInvalid, name)
		require.ErrorContains(t, told[0], c.reason, name)
		require.Zero(t, s.count(t, "orders"), name)
		require.Zero(t, s.count(t, "tool_dedup"), name)
	}
}

// Anything that needs the connection before the commit is refused by name.
func TestControllerIsRefused(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	results := make(chan map[string]error, 1)
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		_, _, hijack := c.Hijack()
		results <- map[string]error{
			"Flush": c.Flush(), "Hijack": hijack, "FullDuplex": c.EnableFullDuplex(),
			"ReadDeadline": c.SetReadDeadline(time.Now()), "WriteDeadline": c.SetWriteDeadline(time.Now()),
			"Flusher": implements[http.Flusher](w), "Hijacker": implements[http.Hijacker](w), "Pusher": implements[http.Pusher](w),
			"ReaderFrom": implements[io.ReaderFrom](w), "ReadWriter": implements[interface{ ReadWriter() *bufio.ReadWriter }](w),
		}
		w.WriteHeader(http.StatusCreated)
	})
	require.Equal(t, http.StatusCreated, s.post(t, "k1", "").status)
	for name, err := range wait(t, results) {
		require.ErrorIs(t, err, http.ErrNotSupported, name)
	}
}

func implements[T any](w http.ResponseWriter) error {
	if _, ok := w.(T); ok {
		return nil
	}
	return fmt.Errorf("no method: %w", http.ErrNotSupported)
}

// The handler can see and change headers of outer layers. A replay's Vary has the first answer's
// names and those of the outer layers.
func TestOuterHeaders(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	wrapped := s.m.Wrap("create_order", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Vary", "Accept")
		w.Header().Del("X-Unwanted")
		w.Header().Set("Idempotency-Replayed", "true") // the middleware replaces it
		w.WriteHeader(http.StatusCreated)
	}))
	s.mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", r.Header.Get("X-Layer"))
		w.Header().Set("X-Unwanted", "1")
		w.Header().Set("X-Request", "7")
		wrapped.ServeHTTP(w, r)
	})
	post := func(layer string) reply {
		return s.post(t, "k1", "", func(r *http.Request) { r.Header.Set("X-Layer", layer) })
	}
	first := post("Origin")
	require.Equal(t, []string{"Origin", "Accept"}, first.header.Values("Vary"))
	require.Empty(t, first.header.Get("X-Unwanted"))
	require.Equal(t, "7", first.header.Get("X-Request"))
	require.False(t, first.replayed())
	for layer, vary := range map[string][]string{"Origin": {"Origin", "Accept"}, "Cookie": {"Cookie", "Origin", "Accept"}} {
		again := post(layer)
		require.Equal(t, vary, again.header.Values("Vary"))
		require.Equal(t, "7", again.header.Get("X-Request"))
		require.True(t, again.replayed())
	}
}

// Only the headers in Options.Headers are stored.
func TestStoredHeaders(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{Headers: []string{"x-order", "Content-Type"}})
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Order", "1")
		w.Header().Set("Location", "/orders/1")
		w.WriteHeader(http.StatusCreated)
	})
	s.post(t, "k1", "")
	again := s.post(t, "k1", "")
	require.Equal(t, "1", again.header.Get("X-Order"))
	require.Empty(t, again.header.Get("Location"))
}

// A handler that runs again gets a new request, with body and form from the beginning.
func TestRequestIsFresh(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	runs := 0
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		runs++
		if r.FormValue("item") != "lamp" || r.ContentLength != 9 || r.Header.Get("X-Seen") != "" {
			http.Error(w, "not as sent", http.StatusBadRequest)
			return
		}
		r.Header.Set("X-Seen", "yes")
		if runs == 1 {
			w.Header().Set("X-Failed", "yes")
			fail(w, r, raise("40001"))
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	got := s.post(t, "k1", "item=lamp", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") })
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, 2, runs)
	require.Empty(t, got.header.Get("X-Failed"), "the first run's")
}

// The files of a form are removed after the request.
func TestFormFilesAreRemoved(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	files := make(chan *multipart.FileHeader, 1)
	s.handle("POST /orders", "create_order", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil { // longer parts go to a file
			panic(err)
		}
		file := r.MultipartForm.File["photo"][0]
		opened, err := file.Open()
		if err != nil {
			panic(err)
		}
		opened.Close()
		files <- file
		w.WriteHeader(http.StatusCreated)
	})
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	part, err := parts.CreateFormFile("photo", "lamp.jpg")
	require.NoError(t, err)
	_, err = part.Write(make([]byte, 1000))
	require.NoError(t, err)
	require.NoError(t, parts.Close())
	got := s.post(t, "k1", form.String(), func(r *http.Request) { r.Header.Set("Content-Type", parts.FormDataContentType()) })
	require.Equal(t, http.StatusCreated, got.status)
	_, err = wait(t, files).Open()
	require.ErrorIs(t, err, fs.ErrNotExist)
}
