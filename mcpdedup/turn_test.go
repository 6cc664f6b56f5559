package mcpdedup_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/mcpdedup"
)

// sentIDs are what clients are known to send where a key belongs, nothing where it is
// "-".
var sentIDs = map[string]func(turn, i int) any{
	"Absent":      func(int, int) any { return "-" },
	"nil":         func(int, int) any { return nil },
	"Empty":       func(int, int) any { return "" },
	"null":        func(int, int) any { return "null" },
	"None":        func(int, int) any { return "None" },
	"Tool's name": func(int, int) any { return "book" },
	"Usable": func(turn, i int) any {
		key, err := dedup.KeyFromToolCall("conversation 17", turn, fmt.Sprintf("call_%d", i))
		if err != nil {
			panic(err)
		}
		return key
	},
}

func turnMeta(session, turn any) mcp.Meta {
	return mcp.Meta{mcpdedup.MetaTurn: map[string]any{"session": session, "turn": turn}}
}

// However the calls of a message are identified, each of them takes effect once, and
// whatever comes again is answered from the records.
func TestTurnsMakeKeys(t *testing.T) {
	t.Parallel()
	for name, id := range sentIDs {
		for _, door := range []string{"AddTools", "Middleware"} {
			for _, where := range []string{"_meta", "argument"} {
				t.Run(name+"/"+door+"/"+where, func(t *testing.T) {
					t.Parallel()
					d := newDesk(t, nil)
					server := d.server(t, oneUser())
					if door == "Middleware" {
						server = guardedServer(t, d, oneUser(), policies)
					}
					cs := connect(t, server)
					send := func(turn, i int) (*mcp.CallToolResult, error) {
						arguments, meta := args{"guest": fmt.Sprint("guest ", i)}, turnMeta("conversation 17", turn)
						if value := id(turn, i); value != "-" && where == "_meta" {
							meta[mcpdedup.MetaKey] = value
						} else if value != "-" {
							arguments[mcpdedup.KeyArgument] = value
						}
						return cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "book", Arguments: arguments, Meta: meta})
					}
					bookings := 0
					for turn := 1; turn <= 2; turn++ {
						first := make([]*mcp.CallToolResult, 4)
						var all sync.WaitGroup
						for i := range first {
							all.Go(func() {
								var err error
								if first[i], err = send(turn, i); err != nil {
									t.Error(err)
								}
							})
						}
						all.Wait()
						bookings += len(first)
						require.Equal(t, bookings, d.count(t, "bookings"))
						for _, i := range []int{0, 1, 2, 3, 3, 1, 2} {
							again, err := send(turn, i)
							require.NoError(t, err)
							requireSame(t, first[i], again)
						}
						require.Equal(t, bookings, d.count(t, "bookings"))
					}
				})
			}
		}
	}
}

// Without a turn a text that names no single call is no key, and a turn that cannot be read
// is refused.
func TestTurnsAndKeys(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	for name, server := range map[string]*mcp.Server{
		"AddTools": d.server(t, oneUser()), "Middleware": guardedServer(t, d, oneUser(), policies),
	} {
		cs := connect(t, server)
		for _, key := range []string{"null", "None", "book"} {
			require.Equal(t, "key_invalid", code(call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: key})), "%s: %s", name, key)
		}
		require.Equal(t, "key_required", code(call(t, cs, "book", args{"guest": "Ada"})), name)
		for _, meta := range []mcp.Meta{
			{mcpdedup.MetaTurn: "s"}, {mcpdedup.MetaTurn: nil}, turnMeta("", 1), turnMeta("s", 0), turnMeta("s", -1), turnMeta("s", 1.5), turnMeta("s", 1e300), turnMeta("s", "1"), turnMeta(7, 1),
		} {
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "book", Arguments: args{"guest": "Ada"}, Meta: meta})
			require.NoError(t, err)
			require.Equal(t, "key_invalid", code(res), "%s: %v", name, meta)
		}
	}
	require.Zero(t, d.count(t, "bookings"))
}

// A key in an argument goes before the turn also where the client's _meta has none, and what
// stands in place of a key is no part of the one that the turn makes.
func TestTurnAndTheArgumentForTheKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	own := maps.Clone(policies)
	book := own["book"]
	book.KeyArgument, book.Ignored = "note", nil
	own["book"] = book
	for name, test := range map[string]struct {
		server *mcp.Server
		key    string
	}{
		"AddTools":    {d.server(t, oneUser()), mcpdedup.KeyArgument},
		"Middleware":  {guardedServer(t, d, oneUser(), policies), mcpdedup.KeyArgument},
		"KeyArgument": {guardedServer(t, d, oneUser(), own), "note"},
	} {
		cs := connect(t, test.server)
		send := func(turn int, key, meta any) *mcp.CallToolResult {
			params := &mcp.CallToolParams{Name: "book", Arguments: args{"guest": name, test.key: key}, Meta: turnMeta(name, turn)}
			params.Meta[mcpdedup.MetaKey] = meta
			res, err := cs.CallTool(t.Context(), params)
			require.NoError(t, err)
			require.False(t, res.IsError, "%s: %v", name, res.Content)
			return res
		}
		before := d.count(t, "bookings")
		requireSame(t, send(1, "mine "+name, nil), send(2, "mine "+name, "null"))
		require.Equal(t, before+1, d.count(t, "bookings"), name)
		requireSame(t, send(3, "null", nil), send(3, "None", nil))
		require.Equal(t, before+2, d.count(t, "bookings"), name)
	}
}
