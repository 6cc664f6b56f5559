package mcpdedup_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/mcpdedup"
)

// noKeys are the values that clients are known to send as a key if the model's provider gave no id.
var noKeys = map[string]any{"nil": nil, "Empty": "", "null": "null", "None": "None", "Tool's name": "book"}

func turnMeta(session, turn any) mcp.Meta {
	return mcp.Meta{mcpdedup.MetaTurn: map[string]any{"session": session, "turn": turn}}
}

// keyed is a server of the desk, and the argument that it takes keys in.
type keyed struct {
	*mcp.Server
	argument string
}

func keyedServers(t *testing.T, d *desk) map[string]keyed {
	t.Helper()
	own := maps.Clone(policies)
	book := own["book"]
	book.KeyArgument, book.Ignored = "note", nil
	own["book"] = book
	return map[string]keyed{
		"AddTools":    {d.server(t, oneUser()), mcpdedup.KeyArgument},
		"Middleware":  {wrappedServer(t, d, oneUser(), policies), mcpdedup.KeyArgument},
		"KeyArgument": {wrappedServer(t, d, oneUser(), own), "note"},
	}
}

// A call with a turn and no usable key is identified by its session, turn, tool and arguments. A
// key overrides the turn, also a key in an argument if the client's _meta has none.
func TestTurnsMakeKeys(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	for name, server := range keyedServers(t, d) {
		cs := connect(t, server.Server)
		send := func(guest string, meta mcp.Meta, in ...any) *mcp.CallToolResult {
			arguments := args{"guest": guest}
			if len(in) > 0 {
				arguments[server.argument] = in[0]
			}
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "book", Arguments: arguments, Meta: meta})
			require.NoError(t, err)
			require.False(t, res.IsError, "%s: %v", name, res.Content)
			return res
		}
		inMeta := func(turn int, key any) mcp.Meta {
			meta := turnMeta(name, turn)
			meta[mcpdedup.MetaKey] = key
			return meta
		}
		before := d.count(t, "bookings")
		first := send("Ada", turnMeta(name, 1))
		for what, none := range noKeys {
			requireSame(t, first, send("Ada", inMeta(1, none)))
			if server.argument != "note" || what != "nil" { // the schema requires a text
				requireSame(t, first, send("Ada", turnMeta(name, 1), none))
				requireSame(t, first, send("Ada", inMeta(1, "null"), none))
			}
		}
		for _, other := range []*mcp.CallToolResult{
			send("Ada", turnMeta(name, 2)), send("Ada", turnMeta(name+" again", 1)), send("Bob", turnMeta(name, 1)), send("Ada", inMeta(1, "meta "+name)),
		} {
			require.Equal(t, false, other.Meta[door.MetaDuplicate], name)
		}
		requireSame(t, send("Ada", inMeta(3, nil), "mine "+name), send("Ada", inMeta(4, "null"), "mine "+name))
		require.Equal(t, before+6, d.count(t, "bookings"), name)
	}
}

// Without a turn, a text that names no single call is not accepted as a key. A malformed turn is
// refused.
func TestTurnsAndKeys(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	for name, server := range keyedServers(t, d) {
		cs := connect(t, server.Server)
		for _, key := range []string{"null", "None", "book"} {
			require.Equal(t, "key_invalid", code(call(t, cs, "book", args{"guest": "Ada", server.argument: key})), "%s: %s", name, key)
		}
		require.Equal(t, "key_required", code(call(t, cs, "book", args{"guest": "Ada"})), name)
		for _, meta := range []mcp.Meta{
			{mcpdedup.MetaTurn: "s"}, turnMeta("", 1), turnMeta("s", 0), turnMeta("s", -1), turnMeta("s", 1.5), turnMeta("s", 1e300), turnMeta("s", "1"), turnMeta(7, 1),
		} {
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "book", Arguments: args{"guest": "Ada"}, Meta: meta})
			require.NoError(t, err)
			require.Equal(t, "key_invalid", code(res), "%s: %v", name, meta)
		}
	}
	require.Zero(t, d.count(t, "bookings"))

	// A null turn counts as missing, and a malformed one is ignored if there is a key.
	for name, server := range keyedServers(t, d) {
		cs := connect(t, server.Server)
		for i, turn := range []any{nil, "s", map[string]any{"turn": 0}} {
			meta := mcp.Meta{mcpdedup.MetaTurn: turn}
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "book", Arguments: args{"guest": "Ada"}, Meta: meta})
			require.NoError(t, err)
			require.Equal(t, map[bool]string{true: "key_required", false: "key_invalid"}[turn == nil], code(res), name)
			meta[mcpdedup.MetaKey] = fmt.Sprint(name, i)
			res, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "book", Arguments: args{"guest": "Ada"}, Meta: meta})
			require.NoError(t, err)
			require.False(t, res.IsError, "%s: %v", name, res.Content)
		}
	}
}
