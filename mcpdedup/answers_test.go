package mcpdedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

func collecting(told *[]mcpdedup.Failure, scope func(context.Context, *mcp.CallToolRequest) (string, error)) *mcpdedup.Options {
	var mu sync.Mutex
	return &mcpdedup.Options{Scope: scope, OnError: func(_ context.Context, f mcpdedup.Failure) {
		mu.Lock()
		defer mu.Unlock()
		*told = append(*told, f)
	}}
}

func TestKeyReused(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	cs := connect(t, d.server(t, oneUser()))
	first := call(t, cs, "book", args{"guest": "Ada", "nights": 2, "card": "canary-1", mcpdedup.KeyArgument: "k"})
	require.False(t, first.IsError)

	res := call(t, cs, "book", args{"guest": "canary-2", "nights": 3, "card": "canary-3", mcpdedup.KeyArgument: "k"})
	require.Equal(t, "key_reused", code(res))
	require.Contains(t, text(res), "with other values of guest, nights. Nothing was done.")
	require.NotContains(t, asJSON(t, res), "canary")
	require.Nil(t, res.StructuredContent)
	require.Equal(t, first.Meta[mcpdedup.MetaFirstAt], res.Meta[mcpdedup.MetaFirstAt])
	require.Equal(t, 1, d.count(t, "bookings"))
}

// TestInFlight: a twin of a call that runs is told how long to wait.
func TestInFlight(t *testing.T) {
	t.Parallel()
	running, done := make(chan struct{}), make(chan struct{})
	d := newDesk(t, func(string) { close(running); <-done })
	server := d.server(t, oneUser())
	one, two := connect(t, server), connect(t, server)
	arguments := args{"guest": "Ada", mcpdedup.KeyArgument: "k"}
	answers := make(chan *mcp.CallToolResult)
	go func() {
		res, _ := one.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{Name: "book", Arguments: arguments})
		answers <- res
	}()
	<-running
	res := call(t, two, "book", arguments)
	close(done)
	require.Equal(t, "in_flight", code(res))
	require.EqualValues(t, 5, res.Meta[mcpdedup.MetaRetryAfter])
	require.Contains(t, text(res), "Wait 5 seconds, then call again with the same idempotencyKey")
	requireSame(t, <-answers, call(t, two, "book", arguments))
}

func TestRefusedAndExpired(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	cs := connect(t, d.server(t, oneUser()))
	for _, replayed := range []bool{false, true} {
		res := call(t, cs, "book", args{"guest": "Nobody", mcpdedup.KeyArgument: "k"})
		require.Equal(t, "refused", code(res))
		require.Equal(t, "there is no room for Nobody", text(res))
		require.Equal(t, replayed, res.Meta[mcpdedup.MetaDuplicate])
	}
	require.Zero(t, d.count(t, "bookings"))

	first := call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k2"})
	require.False(t, first.IsError)
	_, err := d.pool.Exec(t.Context(), `UPDATE tool_dedup SET expires_at = created_at`)
	require.NoError(t, err)
	res := call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k2"})
	require.Equal(t, "expired", code(res))
	require.Equal(t, first.Meta[mcpdedup.MetaFirstAt], res.Meta[mcpdedup.MetaFirstAt])
	require.Equal(t, 1, d.count(t, "bookings"))
}

// TestFaultsAreHidden: a client is told neither SQL nor names, the author all.
func TestFaultsAreHidden(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	opts := collecting(&told, mcpdedup.SingleUser("house"))
	res := call(t, connect(t, d.server(t, opts)), "find", args{"guest": "broken"})
	require.Equal(t, "failed", code(res))
	require.NotContains(t, asJSON(t, res), "canary")
	require.Len(t, told, 1)
	require.ErrorContains(t, told[0].Err, "read-only transaction")

	opts.Explain = func(_ context.Context, err error) (string, bool) { return "No such order.", true }
	res = call(t, connect(t, d.server(t, opts)), "find", args{"guest": "broken"})
	require.True(t, res.IsError)
	require.Equal(t, "No such order.", text(res))
	require.Len(t, told, 1)
}

func TestKeysInMeta(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	opts := oneUser()
	opts.KeysInMeta = true
	cs := connect(t, d.server(t, opts))
	list, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.NotContains(t, asJSON(t, list.Tools), mcpdedup.KeyArgument)

	res := call(t, cs, "book", args{"guest": "Ada"})
	require.Equal(t, "key_required", code(res))
	require.Contains(t, text(res), mcpdedup.MetaKey)
	require.Equal(t, "arguments_invalid", code(call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"})))
	book := func() *mcp.CallToolResult {
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Meta: mcp.Meta{mcpdedup.MetaKey: "k"}, Name: "book", Arguments: args{"guest": "Ada"}})
		require.NoError(t, err)
		return res
	}
	first, again := book(), book()
	requireSame(t, first, again)
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	opts := oneUser()
	opts.Envelope = true
	cs := connect(t, d.server(t, opts))
	list, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var schemas []any
	for _, shown := range list.Tools {
		schemas = append(schemas, shown.OutputSchema)
	}
	requireGolden(t, "envelopes.golden.json", asJSON(t, schemas)+"\n")

	var wrapped struct {
		Result    json.RawMessage
		Duplicate bool
		FirstAt   string
	}
	for _, duplicate := range []bool{false, true} {
		res := call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"})
		require.NoError(t, json.Unmarshal([]byte(text(res)), &wrapped))
		require.JSONEq(t, `{"id":9007199254740993,"guest":"Ada"}`, string(wrapped.Result))
		require.Equal(t, duplicate, wrapped.Duplicate)
		require.Equal(t, res.Meta[mcpdedup.MetaFirstAt], wrapped.FirstAt)
		require.NotNil(t, res.StructuredContent)
	}
	res := call(t, cs, "find", args{"guest": "Bob"})
	require.JSONEq(t, `{"result":[],"duplicate":false}`, text(res))
}

// TestSession: who names sessions can have keys that are a session's.
func TestSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	session := "one"
	opts := oneUser()
	opts.Session = func(context.Context, *mcp.CallToolRequest) (string, error) {
		if session == "broken" {
			return "", errors.New("canary")
		}
		return session, nil
	}
	server := newServer()
	perSession := nothing[findIn]("nothing", tool.Write)
	perSession.Scope = tool.PerSession
	require.NoError(t, addTool(server, d.tools, opts, perSession))
	cs := connect(t, server)
	arguments := args{mcpdedup.KeyArgument: "k"}
	first := call(t, cs, "nothing", arguments)
	requireSame(t, first, call(t, cs, "nothing", arguments))
	session = "two"
	require.Equal(t, false, call(t, cs, "nothing", arguments).Meta[mcpdedup.MetaDuplicate])
	for _, session = range []string{"", "broken"} {
		res := call(t, cs, "nothing", arguments)
		require.Equal(t, "session_required", code(res))
		require.NotContains(t, text(res), "canary")
	}
}
