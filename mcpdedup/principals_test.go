package mcpdedup_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/mcpdedup"
)

// TestPrincipalsAreApart: two users with one key never see each other's results, with equal and
// with other arguments, through added tools and through the middleware.
func TestPrincipalsAreApart(t *testing.T) {
	t.Parallel()
	opts := &mcpdedup.Options{Scope: mcpdedup.TokenUser}
	d := newDesk(t, nil)
	for key, server := range map[string]*mcp.Server{"AddTools": d.server(t, opts), "Middleware": wrappedServer(t, d, opts, policies)} {
		url := serve(t, server)
		alice, bob := connectHTTP(t, url, "alice"), connectHTTP(t, url, "bob")
		mine, other := args{"guest": "Ada", mcpdedup.KeyArgument: key}, args{"guest": "Bob", mcpdedup.KeyArgument: key}
		hers, his := call(t, alice, "book", mine), call(t, bob, "book", mine)
		require.Equal(t, false, his.Meta[door.MetaDuplicate], text(his))
		requireSame(t, hers, call(t, alice, "book", mine))
		requireSame(t, his, call(t, bob, "book", mine))
		// These answers would reveal that another user's key exists.
		theirs := call(t, connectHTTP(t, url, "carol"), "book", other)
		require.False(t, theirs.IsError, text(theirs))
	}
	require.Equal(t, 6, d.count(t, "bookings"))
	require.Equal(t, 6, d.count(t, "tool_dedup"))
}
