package mcpdedup_test

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/mcpdedup"
)

// cutBooking is the call that is cut. The SDK's client writes into what it sends.
func cutBooking() *mcp.CallToolParams {
	return &mcp.CallToolParams{Name: "book", Arguments: args{"guest": "Ada", mcpdedup.KeyArgument: "k"}}
}

// TestCutHTTP: the connection is cut after the server has committed and before
// the answer has passed. In a new session the same call gets the answer, and
// there is one booking.
func TestCutHTTP(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{"WithSession": withSession, "WithoutSession": withoutSession} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			server := newServer()
			require.NoError(t, mcpdedup.AddTools(server, d.tools, &mcpdedup.Options{Scope: mcpdedup.TokenUser}))
			proxy, url := newCutProxy(t, strings.TrimPrefix(serve(t, server, version), "http://"))

			_, err := connectHTTP(t, url, "alice", version).CallTool(t.Context(), cutBooking())
			require.Error(t, err)
			<-proxy.done
			require.Contains(t, proxy.answer, `"structuredContent"`)
			requireSurvived(t, d, connectHTTP(t, url, "alice", version))
		})
	}
}

// TestCutStdio: the server's process ends in place of answering.
func TestCutStdio(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	_, err := connectStdio(t, settings{URL: d.db.URL, Cut: true}).CallTool(t.Context(), cutBooking())
	require.Error(t, err)
	requireSurvived(t, d, connectStdio(t, settings{URL: d.db.URL}))
}

func requireSurvived(t *testing.T, d *desk, again *mcp.ClientSession) {
	t.Helper()
	require.Equal(t, 1, d.count(t, "bookings"), "it was committed")
	res, err := again.CallTool(t.Context(), cutBooking())
	require.NoError(t, err)
	require.False(t, res.IsError, text(res))
	require.Equal(t, true, res.Meta[mcpdedup.MetaDuplicate])
	require.JSONEq(t, `{"id":9007199254740993,"guest":"Ada"}`, text(res))
	require.Equal(t, 1, d.count(t, "bookings"))
	require.Equal(t, 1, d.count(t, "tool_dedup"))
}
