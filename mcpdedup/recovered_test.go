package mcpdedup_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/mcpdedup"
)

// A call whose COMMIT lost its reply finds its own record. It is not a duplicate: its effect was
// made now.
func TestRecoveredIsNoDuplicate(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	tools, proxy := d.proxied(t)
	added, enveloped := newServer(), oneUser()
	enveloped.Envelope = true
	require.NoError(t, mcpdedup.AddTools(added, tools, enveloped))
	wrapped := wrap(t, existing(), tools, oneUser(), policies)
	call(t, connect(t, added), "book", args{"guest": "Ada", mcpdedup.KeyArgument: "warm"})
	for key, c := range map[string]struct {
		server   *mcp.Server
		tool     string
		bookings int
	}{
		"AddTools":   {added, "book", 1},
		"Middleware": {wrapped, "book", 1},
		"Refusal":    {wrapped, "refuse", 0},
	} {
		cs := connect(t, c.server)
		arguments := args{"guest": "Ada", mcpdedup.KeyArgument: key}
		before := d.count(t, "bookings")
		lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
		first := call(t, cs, c.tool, arguments)
		require.Equal(t, 1, lost.Count(), key)
		require.Equal(t, c.bookings, d.count(t, "bookings")-before, key)
		require.Equal(t, false, first.Meta[door.MetaDuplicate], key)
		again := call(t, cs, c.tool, arguments)
		require.Equal(t, true, again.Meta[door.MetaDuplicate], key)
		if c.server == added {
			require.Contains(t, text(first), `"duplicate":false`)
			require.Contains(t, text(again), `"duplicate":true`)
		}
	}
}
