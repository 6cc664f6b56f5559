package mcpdedup_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/mcpdedup"
)

var farAway = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// TestTransports makes the same calls through every transport of the SDK, with a session and
// without.
func TestTransports(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "WithSession": withSession, "WithoutSession": withoutSession,
	} {
		t.Run("InMemory"+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			server := newServer()
			require.NoError(t, mcpdedup.AddTools(server, d.tools, oneUser()))
			exercise(t, d, func() *mcp.ClientSession { return connect(t, server, version) })
		})
		t.Run("HTTP"+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			server := newServer()
			require.NoError(t, mcpdedup.AddTools(server, d.tools, &mcpdedup.Options{Scope: mcpdedup.TokenUser}))
			url := serve(t, server, version)
			exercise(t, d, func() *mcp.ClientSession { return connectHTTP(t, url, "alice", version) })
		})
	}
	t.Run("Stdio", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, nil)
		exercise(t, d, func() *mcp.ClientSession { return connectStdio(t, settings{URL: d.db.URL}) })
	})
}

// exercise makes calls and repeats them in a new session.
func exercise(t *testing.T, d *desk, connect func() *mcp.ClientSession) {
	t.Helper()
	cs := connect()
	list, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, list.Tools, 5)

	first := call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k1"})
	requireSame(t, first, call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k1"}))
	require.JSONEq(t, `{"id":9007199254740993,"guest":"Ada"}`, text(first))

	again := connect()
	requireSame(t, first, call(t, again, "book", args{"note": "worded anew", "guest": "Ada", mcpdedup.KeyArgument: "k1"}))
	second := call(t, again, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k2"})
	require.NotEqual(t, text(first), text(second))

	// A key in _meta overrides the argument.
	res, err := again.CallTool(t.Context(), &mcp.CallToolParams{
		Meta: mcp.Meta{mcpdedup.MetaKey: "k1"}, Name: "book", Arguments: args{"guest": "Ada", mcpdedup.KeyArgument: "k3"},
	})
	require.NoError(t, err)
	requireSame(t, first, res)
	require.Equal(t, "k1", res.Meta[mcpdedup.MetaKey])

	// Arguments that are the key, a result that is not an object, and no key.
	cancelled := call(t, again, "cancel", args{"ref": "r1"})
	requireSame(t, cancelled, call(t, cs, "cancel", args{"ref": "r1"}))
	require.Equal(t, `["r1"]`, text(cancelled))
	for range 2 {
		res = call(t, cs, "set_phone", args{"guest": "Ada", "phone": "1"})
		require.False(t, res.IsError, text(res))
		require.NotContains(t, res.Meta, door.MetaDuplicate)
	}
	found := call(t, cs, "find", args{"guest": "Ada"})
	require.False(t, found.IsError, text(found))
	require.Equal(t, 2, d.count(t, "bookings"))
	require.Equal(t, 3, d.count(t, "effects"))
	require.Equal(t, 3, d.count(t, "tool_dedup"))
}

// serve serves a server over streamable HTTP, with sessions unless the version has none.
func serve(t testing.TB, server *mcp.Server, version ...string) (url string) {
	t.Helper()
	return serveBehind(t, server, bearer(server, &mcp.StreamableHTTPOptions{Stateless: strings.Join(version, "") == withoutSession}))
}

// serveBehind serves a server's handler and ends its sessions, because a client whose connection is
// cut cannot.
func serveBehind(t testing.TB, server *mcp.Server, handler http.Handler) (url string) {
	t.Helper()
	url = listen(t, handler)
	t.Cleanup(func() {
		for session := range server.Sessions() {
			session.Close()
		}
	})
	return url
}

// listen serves a handler until the test ends.
func listen(t testing.TB, handler http.Handler) (url string) {
	t.Helper()
	web := httptest.NewServer(handler)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web.URL
}

func connectHTTP(t testing.TB, url, user string, version ...string) *mcp.ClientSession {
	t.Helper()
	cs := connectOver(t, httpTransport(t, url, user), version...)
	t.Cleanup(func() { cs.Close() })
	return cs
}

func httpTransport(t testing.TB, url, user string) *mcp.StreamableClientTransport {
	wire := &http.Transport{}
	t.Cleanup(wire.CloseIdleConnections)
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: withToken{user, wire}}, MaxRetries: -1}
}

// withToken adds a user's token to requests.
type withToken struct {
	user string
	next http.RoundTripper
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.user)
	return w.next.RoundTrip(r)
}

func connectStdio(t testing.TB, s settings) *mcp.ClientSession {
	t.Helper()
	cs := connectOver(t, &mcp.CommandTransport{Command: serverCommand(t, s)})
	t.Cleanup(func() { cs.Close() })
	return cs
}

func serverCommand(t testing.TB, s settings) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), asServer+"="+s.String())
	cmd.Stderr = os.Stderr
	return cmd
}
