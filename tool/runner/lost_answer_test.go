package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// cut ends a connection instead of answering, after the work was committed.
type cut func(w http.ResponseWriter)

func cutBeforeTheAnswer(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func cutWithinTheAnswer(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"id":`)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// bookings is a server that books on every request and loses its first answers.
type bookings struct {
	pool  *pgxpool.Pool
	d     *dedup.Deduper // nil without dedup
	cut   cut
	loses int64
	calls atomic.Int64
}

func (b *bookings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, err := b.book(r.Context(), strings.Trim(r.Header.Get(door.KeyHeader), `"`))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if b.calls.Add(1) <= b.loses {
		b.cut(w)
	}
	_ = json.NewEncoder(w).Encode(map[string]int{"id": id})
}

const insertBooking = `INSERT INTO bookings DEFAULT VALUES RETURNING id`

func (b *bookings) book(ctx context.Context, key string) (id int, err error) {
	if b.d == nil {
		return id, b.pool.QueryRow(ctx, insertBooking).Scan(&id)
	}
	call := dedup.Call{Scope: "acme", Tool: "book", Key: key}
	result, err := dedup.Do(ctx, b.d, call, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
		return id, tx.QueryRow(ctx, insertBooking).Scan(&id)
	})
	return result.Value, err
}

// book is the client's side: one request.
func book(ctx context.Context, client *http.Client, url string) (id int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if err := runner.ResponseError(resp); err != nil {
		return 0, err
	}
	var booking struct{ ID int }
	return booking.ID, json.Unmarshal(text, &booking)
}

// A server commits and loses its answer. It has one booking, and the caller gets that booking, over
// HTTP/1.1 and HTTP/2.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		for name, lose := range map[string]cut{"BeforeTheAnswer": cutBeforeTheAnswer, "WithinTheAnswer": cutWithinTheAnswer} {
			for _, deduped := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/HTTP2=%t/Dedup=%t", name, http2, deduped), func(t *testing.T) {
					t.Parallel()
					server := &bookings{pool: pgtest.New(t).Pool(t), cut: lose, loses: 2}
					_, err := server.pool.Exec(t.Context(), `CREATE TABLE bookings (id int GENERATED ALWAYS AS IDENTITY)`)
					require.NoError(t, err)
					if deduped {
						server.d, err = dedup.New(server.pool, nil)
						require.NoError(t, err)
					}
					client, url := serve(t, server, http2)

					call, tries := runner.Call{Tool: "book", Class: tool.Write, Pause: 1}, 0
					booking, err := runner.Do(t.Context(), call, func(ctx context.Context) (int, error) {
						tries++
						return book(ctx, client, url)
					})
					require.NoError(t, err)
					require.Equal(t, 3, tries)
					var effects int
					require.NoError(t, server.pool.QueryRow(t.Context(), `SELECT count(*) FROM bookings`).Scan(&effects))
					if !deduped { // shows the bug that dedup prevents
						require.Equal(t, 3, effects)
						return
					}
					require.Equal(t, 1, effects)
					require.Equal(t, 1, booking)
				})
			}
		}
	}
}

// serve starts a server and returns a client whose requests carry their keys.
func serve(t *testing.T, handler http.Handler, http2 bool) (*http.Client, string) {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if http2 {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	client := server.Client()
	t.Cleanup(client.CloseIdleConnections)
	client.Transport = &runner.Transport{Base: client.Transport}
	return client, server.URL
}

const wasLost = "runner: the answer was lost"

// outermost returns the error that Transport wraps err in.
func outermost(err error) error {
	for !strings.HasPrefix(err.Error(), wasLost) {
		err = errors.Unwrap(err)
	}
	return err
}

// An error without a type in net/http gets one, if a request was on its way.
func TestTransportTypesLostAnswers(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]cut{"BeforeTheAnswer": cutBeforeTheAnswer, "WithinTheAnswer": cutWithinTheAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { lose(w) }), true)
			_, err := book(t.Context(), client, url)
			require.True(t, runner.IsRetryable(err))
			lost := errors.Unwrap(outermost(err))
			require.False(t, runner.IsRetryable(lost), "or the type would not be needed")
		})
	}
}

// An error from before a request was on a connection is returned unchanged.
func TestTransportLeavesOtherErrors(t *testing.T) {
	t.Parallel()
	base := &http.Transport{} // without the default's limit on a handshake
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &runner.Transport{Base: base}}
	_, err := book(t.Context(), client, "gopher://x")
	require.False(t, runner.IsRetryable(err))

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err = book(t.Context(), client, gone.URL)
	require.NotContains(t, err.Error(), wasLost)
	require.True(t, runner.IsRetryable(err), "nobody listens there now")

	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	_, err = book(t.Context(), client, untrusted.URL)
	require.NotContains(t, err.Error(), wasLost)
	require.False(t, runner.IsRetryable(err), "its certificate is signed by nobody we know")

	// A body that cannot be read fails during the request. It is unknown how much of it was sent.
	client, url := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), false)
	broken := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), brokenReader{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, broken)
	require.NoError(t, err)
	_, err = client.Do(req)
	require.ErrorContains(t, err, wasLost)
	require.ErrorIs(t, err, errBroken)
}

var errBroken = errors.New("the disk has a bad sector")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

// A connection that the caller took over is passed on unchanged.
func TestTransportLeavesUpgradedConnections(t *testing.T) {
	t.Parallel()
	client, url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = buffered.Flush()
		line, _ := buffered.ReadString('\n')
		_, _ = buffered.WriteString(line)
		_ = buffered.Flush()
	}), false)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Connection", "upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	conn, ok := resp.Body.(io.ReadWriter)
	require.True(t, ok)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	echo := make([]byte, 6)
	_, err = io.ReadFull(conn, echo)
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(echo))
}

// net/http repeats a request if a kept connection ends before the answer. A second dial that fails
// tells nothing about the first request.
func TestServerGoneAfterItsWork(t *testing.T) {
	t.Parallel()
	var work atomic.Int64
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		work.Add(1)
		_ = server.Listener.Close()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &runner.Transport{Base: base}}
	kept, err := client.Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, kept.Body.Close())

	call := runner.Call{Tool: "book", Class: tool.Write, Key: "k", Tries: 2, Pause: 1}
	_, err = runner.Do(t.Context(), call, func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("x"))
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return "", err
	})
	require.EqualValues(t, 1, work.Load())
	var gaveUp *runner.GaveUpError
	require.ErrorAs(t, err, &gaveUp)
	require.True(t, gaveUp.OutcomeUnknown, "%v", err)
	require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
}
