package mcpdedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/npm"
	"github.com/tooldedup/dedup/mcpdedup"
)

// TestLongTypeScriptClientModule: clients/typescript passes the compiler, and what it calls
// over either door takes effect once, whatever becomes of the connections. A second
// process with the kept keys gets the same answers.
func TestLongTypeScriptClientModule(t *testing.T) {
	t.Parallel()
	folder := compileClient(t)
	t.Run("Classes", func(t *testing.T) {
		t.Parallel()
		out, err := exec.CommandContext(t.Context(), "node", "--test", filepath.Join(folder, "client.test.js")).CombinedOutput()
		require.NoError(t, err, string(out))
	})
	for door, serve := range map[string]func(*testing.T, *desk) http.Handler{
		"fetch": serveWeb,
		"sdk1":  serveDesk(nil),
		"sdk2":  serveDesk(&mcp.StreamableHTTPOptions{Stateless: true}),
	} {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			const calls = 8
			d := newDesk(t, nil)
			front := &breakingFront{inner: serve(t, d), fates: fates, left: map[string][]string{}, broken: map[string]int{}}
			plan := args{"door": door, "url": listen(t, front), "token": "alice", "keys": filepath.Join(t.TempDir(), "keys.json"), "calls": calls}
			first := drive(t, folder, plan)
			for _, fault := range breaks {
				require.NotZero(t, front.broken[fault], fault)
			}
			require.Len(t, first, calls)
			require.Equal(t, calls, d.count(t, "bookings"))
			require.Equal(t, calls, d.count(t, "tool_dedup"))

			again := drive(t, folder, plan)
			for i := range again {
				require.Equal(t, true, again[i].Duplicate)
				again[i].Duplicate = first[i].Duplicate
			}
			require.Equal(t, first, again)
			require.Equal(t, calls, d.count(t, "bookings"))
		})
	}
}

// driven is what came of a call.
type driven struct {
	Intent, Text string
	Duplicate    any
}

// compileClient compiles the client with its own settings, and beside it its tests and
// the program that drives it. It returns where they are.
func compileClient(t *testing.T) (folder string) {
	t.Helper()
	folder = npm.Install(t, "typescript")
	tsc := filepath.Join(folder, "node_modules/.bin/tsc")
	for _, arguments := range [][]string{{"--project", "../clients/typescript", "--outDir", folder}, {"--project", folder}} {
		out, err := exec.Command(tsc, arguments...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return folder
}

// drive makes a plan's calls in a process of its own.
func drive(t *testing.T, folder string, plan args) (outcomes []driven) {
	t.Helper()
	node(t, filepath.Join(folder, "drive.js"), plan, &outcomes)
	return outcomes
}

// serveDesk serves bookings over MCP.
func serveDesk(opts *mcp.StreamableHTTPOptions) func(*testing.T, *desk) http.Handler {
	return func(t *testing.T, d *desk) http.Handler {
		server := d.server(t, &mcpdedup.Options{Scope: mcpdedup.TokenUser, KeysInMeta: true})
		t.Cleanup(func() {
			for session := range server.Sessions() {
				session.Close() // clients whose connection is cut say no goodbye
			}
		})
		return bearer(server, opts)
	}
}

// serveWeb serves bookings over HTTP.
func serveWeb(t *testing.T, d *desk) http.Handler {
	guard, err := httpdedup.New(d.tools.Deduper(), httpdedup.Options{
		Scope: func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil },
	})
	require.NoError(t, err)
	return guard.Wrap("book", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Guest string }
		tx, _ := httpdedup.Tx(r.Context())
		err := json.NewDecoder(r.Body).Decode(&in)
		var id int64
		if err == nil {
			err = tx.QueryRow(r.Context(), `INSERT INTO bookings (guest) VALUES ($1) RETURNING id`, in.Guest).Scan(&id)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d,"guest":%q}`, id, in.Guest)
	}))
}

// What becomes of a try.
const (
	cutBefore = "cut before the request"
	cutAnswer = "cut in place of the answer"
	cutHalf   = "cut within the answer"
	status502 = "502 in place of the answer"
	status503 = "503 with Retry-After, before the request"
	noAnswer  = "no answer until the client gives up"
	passes    = ""
)

var breaks = []string{cutBefore, cutAnswer, cutHalf, status502, status503, noAnswer}

// fates are what becomes of the tries of one key, one after another. Further ones pass.
var fates = [][]string{
	{cutAnswer}, {cutBefore, cutHalf}, {}, {status502, cutAnswer}, {cutHalf, status503}, {cutAnswer, cutAnswer, cutAnswer}, {cutBefore, status502, cutHalf}, {noAnswer},
}

// breakingFront stands before a server and breaks what passes, by key and try.
type breakingFront struct {
	inner http.Handler
	fates [][]string // of the keys, one after another

	mu     sync.Mutex
	left   map[string][]string // what becomes of a key's further tries
	broken map[string]int      // how often
}

func (f *breakingFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	fault := f.next(keyOf(r, body))
	switch fault {
	case passes:
		f.inner.ServeHTTP(w, r)
		return
	case cutBefore:
		panic(http.ErrAbortHandler)
	case status503:
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	answer := httptest.NewRecorder()
	f.inner.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
	switch fault {
	case status502:
		w.WriteHeader(http.StatusBadGateway)
	case noAnswer:
		<-r.Context().Done()
	case cutHalf:
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case cutAnswer:
		panic(http.ErrAbortHandler)
	}
}

// next is what becomes of the next try of a key.
func (f *breakingFront) next(key string) string {
	if key == "" {
		return passes
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	left, known := f.left[key]
	if !known {
		left = f.fates[len(f.left)%len(f.fates)]
	}
	fault := passes
	if len(left) > 0 {
		fault, left = left[0], left[1:]
	}
	f.left[key] = left
	f.broken[fault]++
	return fault
}

// keyOf is the key of a request to either door.
func keyOf(r *http.Request, body []byte) string {
	var call struct {
		Method string
		Params struct {
			Meta      map[string]any `json:"_meta"`
			Arguments map[string]any
		}
	}
	if json.Unmarshal(body, &call) == nil && call.Method == "tools/call" {
		key, inMeta := call.Params.Meta[mcpdedup.MetaKey].(string)
		if !inMeta {
			key, _ = call.Params.Arguments[mcpdedup.KeyArgument].(string)
		}
		return key
	}
	return r.Header.Get("Idempotency-Key")
}
