package mcpdedup_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/mcpdedup"
)

type request struct{ name, body string }

// malformed are requests with one fault each. A body is for a call of book, unless it begins with
// "raw:". testdata/malformed.golden has the answers and documents them.
var malformed = []request{
	// Keys.
	{"no key", `{"guest":"Ada","card":"canary"}`},
	{"no arguments", ``},
	{"empty key", `{"guest":"Ada","idempotencyKey":""}`},
	{"key is null", `{"guest":"Ada","idempotencyKey":null}`},
	{"key is a number", `{"guest":"Ada","idempotencyKey":7}`},
	{"key is a boolean", `{"guest":"Ada","idempotencyKey":true}`},
	{"key is an object", `{"guest":"Ada","idempotencyKey":{"canary":1}}`},
	{"key is a list", `{"guest":"Ada","idempotencyKey":["canary"]}`},
	{"key of 256 characters", `{"guest":"Ada","idempotencyKey":"` + strings.Repeat("k", 256) + `"}`},
	{"key of 256 characters and 768 bytes", `{"guest":"Ada","idempotencyKey":"` + strings.Repeat("€", 256) + `"}`},
	{"key with a newline", `{"guest":"Ada","idempotencyKey":"canary\n"}`},
	{"key with a NUL", `{"guest":"Ada","idempotencyKey":"canary\u0000"}`},
	{"key with a C1 control", `{"guest":"Ada","idempotencyKey":"canary\u0085"}`},
	{"key with half a surrogate pair", `{"guest":"Ada","idempotencyKey":"canary\ud800"}`},
	{"key twice", `{"guest":"Ada","idempotencyKey":"canary1","idempotencyKey":"canary2"}`},
	{"key twice, once escaped", `{"guest":"Ada","idempotencyKey":"canary1","\u0069dempotencyKey":"canary2"}`},
	{"key in other capitals", `{"guest":"Ada","IdempotencyKey":"canary"}`},
	{"key in snake case", `{"guest":"Ada","idempotency_key":"canary"}`},
	{"key in _meta is a number", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada"},"_meta":{"io.github.tooldedup/idempotency-key":7}}}`},
	{"key in _meta is null", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada"},"_meta":{"io.github.tooldedup/idempotency-key":null}}}`},
	{"key in _meta is empty", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada"},"_meta":{"io.github.tooldedup/idempotency-key":""}}}`},
	{"key in _meta has a control character", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada"},"_meta":{"io.github.tooldedup/idempotency-key":"canary\u0007"}}}`},
	{"key in _meta under another name", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada"},"_meta":{"idempotencyKey":"canary"}}}`},
	{"only the id of the request", `raw:{"jsonrpc":"2.0","id":"a-request","method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada"}}}`},
	// Arguments.
	{"missing argument", `{"card":"canary","idempotencyKey":"k"}`},
	{"unknown argument", `{"guest":"Ada","suite":"canary","idempotencyKey":"k"}`},
	{"unknown argument with an odd name", `{"guest":"Ada","a\"b\n":"canary","idempotencyKey":"k"}`},
	{"unknown argument with a long name", `{"guest":"Ada","` + strings.Repeat("x", 500) + `":"canary","idempotencyKey":"k"}`},
	{"argument in other capitals", `{"Guest":"canary","idempotencyKey":"k"}`},
	{"argument twice", `{"guest":"canary1","guest":"canary2","idempotencyKey":"k"}`},
	{"argument is null", `{"guest":null,"card":"canary","idempotencyKey":"k"}`},
	{"argument is of another type", `{"guest":["canary"],"idempotencyKey":"k"}`},
	{"secret argument is of another type", `{"guest":"Ada","card":4111111111111111,"idempotencyKey":"k"}`},
	{"number is too large", `{"guest":"Ada","nights":4711,"idempotencyKey":"k"}`},
	{"number has a fraction", `{"guest":"Ada","nights":4711.5,"idempotencyKey":"k"}`},
	{"half a surrogate pair in a free argument", `{"guest":"Ada","extra":"canary\ud800","idempotencyKey":"k"}`},
	{"name twice in a free argument", `{"guest":"Ada","extra":{"canary":1,"canary":2},"idempotencyKey":"k"}`},
	{"number without end in a free argument", `{"guest":"Ada","extra":1e99999999999,"idempotencyKey":"k"}`},
	{"confirm for a tool without", `{"guest":"Ada","confirm":true,"idempotencyKey":"k"}`},
	{"arguments are a list", `["canary"]`},
	{"arguments are a string", `"canary"`},
	{"arguments are a number", `4711`},
	{"arguments are null", `null`},
	{"key of the arguments is empty", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cancel","arguments":{"ref":""}}}`},
	{"key of the arguments is too long", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cancel","arguments":{"ref":"` + strings.Repeat("canary", 50) + `"}}}`},
	{"key for a tool whose arguments are it", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cancel","arguments":{"ref":"canary","idempotencyKey":"canary"}}}`},
	{"key for a tool that reads", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find","arguments":{"idempotencyKey":"canary"}}}`},
	{"fault of the server's", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find","arguments":{"guest":"broken"}}}`},
}

// noMCP are requests that the SDK answers before a tool is found. It quotes the client's own text.
var noMCP = []request{
	{"unknown tool", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"unknown","arguments":{"card":"canary"}}}`},
	{"no tool", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"card":"canary"}}}`},
	{"no params", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call"}`},
	{"params are null", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`},
	{"unknown method", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/other","params":{}}`},
	{"no method", `raw:{"jsonrpc":"2.0","id":1,"params":{"name":"book"}}`},
	{"no JSON", `raw:{"jsonrpc":"2.0",canary`},
	{"two bodies", `raw:{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`},
	{"empty body", `raw:`},
	{"version 1.0", `raw:{"jsonrpc":"1.0","id":1,"method":"ping"}`},
	{"id is a list", `raw:{"jsonrpc":"2.0","id":["canary"],"method":"ping"}`},
	{"nested too deep", `raw:{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada","idempotencyKey":"k","extra":` +
		strings.Repeat("[", 1200) + strings.Repeat("]", 1200) + `}}}`},
}

// TestMalformed: each request gets its answer, nothing is stored, and no answer repeats the
// client's values or details of the server.
func TestMalformed(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(malformed), 40)
	d := newDesk(t, nil)
	post := poster(d.server(t, oneUser()))
	var golden strings.Builder
	for i, m := range slices.Concat(malformed, noMCP) {
		body, raw := strings.CutPrefix(m.body, "raw:")
		if !raw && body != "" {
			body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":` + body + `}}`
		} else if !raw {
			body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book"}}`
		}
		status, answer := post(body)
		fmt.Fprintf(&golden, "== %s\n%s\n-> %d %s\n", m.name, abridged(body), status, abridged(answer))
		secrets := []string{"SQLSTATE", "server_only", "goroutine"}
		if i < len(malformed) {
			secrets = append(secrets, "canary", "411111", "4711")
			require.Equal(t, http.StatusOK, status, m.name)
			require.Contains(t, answer, `"isError":true`, m.name)
		}
		for _, secret := range secrets {
			require.NotContains(t, answer, secret, m.name)
		}
	}
	requireGolden(t, "malformed.golden", golden.String())
	for _, table := range []string{"tool_dedup", "bookings", "effects"} {
		require.Zero(t, d.count(t, table), table)
	}
}

// poster posts bodies to a server without a session.
func poster(server *mcp.Server) func(body string) (status int, answer string) {
	handler := bearer(server, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return func(body string) (int, string) {
		req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer house")
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		return w.Code, strings.TrimSpace(w.Body.String())
	}
}

// abridged shortens runs of one character.
func abridged(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i := 0; i < len(runes); {
		n := 1
		for i+n < len(runes) && runes[i+n] == runes[i] {
			n++
		}
		if n > 20 {
			b.WriteString(string(runes[i]) + "…×" + strconv.Itoa(n))
		} else {
			b.WriteString(string(runes[i : i+n]))
		}
		i += n
	}
	return b.String()
}

// TestUnidentified: a call without a scope is not run, for every tool and both ways.
func TestUnidentified(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	user, nobody := collecting(&told, mcpdedup.TokenUser), collecting(&told, mcpdedup.SingleUser(""))
	for _, server := range []*mcp.Server{d.server(t, user), wrappedServer(t, d, user, policies), d.server(t, nobody)} {
		cs := connect(t, server)
		for _, name := range []string{"book", "find"} {
			res := call(t, cs, name, args{"guest": "Ada", mcpdedup.KeyArgument: "k"})
			require.Equal(t, "unidentified", code(res))
			require.NotContains(t, text(res), "token")
		}
	}
	require.Len(t, told, 6)
	require.ErrorContains(t, told[0].Err, "token")
	require.Zero(t, d.count(t, "tool_dedup"))
	require.Zero(t, d.count(t, "bookings"))
}
