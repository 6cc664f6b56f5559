package mcpdedup_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// TestPrincipalsAreApart: two users who choose one key never see each other's
// results, with equal arguments and with others, through tools that are added and
// through the middleware.
func TestPrincipalsAreApart(t *testing.T) {
	t.Parallel()
	opts := &mcpdedup.Options{Scope: mcpdedup.TokenUser}
	added := newDesk(t, nil)
	guarded := newDesk(t, nil)
	for name, d := range map[string]struct {
		*desk
		server *mcp.Server
	}{
		"AddTools":   {added, added.server(t, opts)},
		"Middleware": {guarded, guardedServer(t, guarded, opts, map[string]mcpdedup.Policy{"book": {Class: tool.Write}})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, d.server)
			alice, bob := connectHTTP(t, url, "alice"), connectHTTP(t, url, "bob")
			arguments := args{"guest": "Ada", mcpdedup.KeyArgument: "k"}
			hers, his := call(t, alice, "book", arguments), call(t, bob, "book", arguments)
			require.False(t, his.IsError, text(his))
			require.Equal(t, false, his.Meta[door.MetaDuplicate])
			require.NotEqual(t, text(hers), text(his))

			requireSame(t, hers, call(t, alice, "book", arguments))
			requireSame(t, his, call(t, bob, "book", arguments))
			// What gives away another's use of a key: that it is taken.
			carol := call(t, connectHTTP(t, url, "carol"), "book", args{"guest": "Carol", mcpdedup.KeyArgument: "k"})
			require.False(t, carol.IsError, text(carol))
			require.Equal(t, 3, d.count(t, "bookings"))
			require.Equal(t, 3, d.count(t, "tool_dedup"))
		})
	}
}
