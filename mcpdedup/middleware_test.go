package mcpdedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// existing adds tools that were written without dedup, except that they get their transaction from
// Tx.
func existing() *mcp.Server {
	server := newServer()
	var busy, hidden, final atomic.Int32
	type in struct {
		Guest string `json:"guest"`
		Note  string `json:"note,omitempty"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "book", Annotations: &mcp.ToolAnnotations{Title: "Book"}},
		func(ctx context.Context, req *mcp.CallToolRequest, in in) (*mcp.CallToolResult, booking, error) {
			tx, ok := mcpdedup.Tx(ctx)
			if !ok {
				return nil, booking{}, errors.New("no transaction")
			}
			var b booking
			err := tx.QueryRow(ctx, `INSERT INTO bookings (guest) VALUES ($1) RETURNING id, guest`, in.Guest).Scan(&b.ID, &b.Guest)
			switch {
			case err != nil:
				return nil, b, err
			case in.Guest == "Refused":
				return nil, b, errors.New("no room")
			case in.Guest == "Wire":
				return nil, b, &jsonrpc.Error{Code: 418, Message: "teapot"}
			case in.Guest == "Declined":
				return nil, b, dedup.Final(errors.New("card declined"))
			case in.Guest == "Busy" && busy.Add(1) < 3:
				_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`)
				return nil, b, err
			case in.Guest == "Hidden" && hidden.Add(1) < 3, in.Guest == "HiddenFinal" && final.Add(1) < 3:
				_, _ = tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$`)
				err := errors.New("no room")
				if in.Guest == "HiddenFinal" {
					err = dedup.Final(err)
				}
				return nil, b, err
			case in.Guest == "Taken":
				_, _ = tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '23505'; END $$`)
				return nil, b, errors.New("no room")
			case in.Guest == "TakenFinal":
				_, _ = tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '23505'; END $$`)
				return nil, b, dedup.Final(errors.New("no room"))
			case in.Guest == "Ignores":
				_, _ = tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '23505'; END $$`)
			case in.Guest == "Ends":
				_, err := tx.Exec(ctx, "COMMIT")
				return nil, b, errors.Join(err, errors.New("no room"))
			}
			return &mcp.CallToolResult{Meta: mcp.Meta{"number": json.Number("9007199254740993")}}, b, nil
		})
	server.AddTool(&mcp.Tool{Name: "find", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, ok := mcpdedup.Tx(ctx)
			b, _ := json.Marshal(ok)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(b)}, &mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}}}, nil
		})
	server.AddTool(&mcp.Tool{Name: "refuse", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, dedup.Final(errors.New("closed"))
		})
	return server
}

// wrap puts the tools of a server behind the middleware.
func wrap(t *testing.T, server *mcp.Server, tools *tool.Registry, opts *mcpdedup.Options, policies map[string]mcpdedup.Policy) *mcp.Server {
	t.Helper()
	middleware, err := mcpdedup.Middleware(tools.Deduper(), policies, opts)
	require.NoError(t, err)
	server.AddReceivingMiddleware(middleware)
	return server
}

func wrappedServer(t *testing.T, d *desk, opts *mcpdedup.Options, policies map[string]mcpdedup.Policy) *mcp.Server {
	t.Helper()
	return wrap(t, existing(), d.tools, opts, policies)
}

var policies = map[string]mcpdedup.Policy{
	"book": {Class: tool.Destructive, Retention: dedup.Retention{Result: 30 * 24 * time.Hour}, Ignored: []string{"note"}},
	"find": {Class: tool.ReadOnly}, "refuse": {Class: tool.Write},
}

func TestMiddlewareReplays(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := wrappedServer(t, d, oneUser(), policies)
	first := call(t, connect(t, server), "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"})
	cs := connect(t, server)
	again := call(t, cs, "book", args{"guest": "Ada", "note": "anew", mcpdedup.KeyArgument: "k"})
	requireSame(t, first, again)
	require.JSONEq(t, `{"id":9007199254740993,"guest":"Ada"}`, text(again))
	require.Contains(t, again.Meta, "number")
	require.Equal(t, "key_reused", code(call(t, cs, "book", args{"guest": "Bob", mcpdedup.KeyArgument: "k"})))
	require.Equal(t, "key_required", code(call(t, cs, "book", args{"guest": "Bob"})))
	require.Equal(t, 1, d.count(t, "bookings"))

	found := call(t, cs, "find", nil)
	require.Equal(t, "false", text(found), "a tool that reads is passed on")
	require.Empty(t, code(found))

	// A replay keeps the text of the recorded numbers.
	_, answer := poster(server)(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada","idempotencyKey":"k"}}}`)
	require.Contains(t, answer, `"number":9007199254740993`)
	require.NotContains(t, answer, "resultType")
}

// TestMiddlewareAnswers: a result and a refusal are recorded, and equal each time. Any other answer
// is the handler's, and leaves nothing. A handler runs again after a fault that may pass, also if
// the handler put the fault into a result, or hid it behind an error of its own.
func TestMiddlewareAnswers(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	cs := connect(t, wrappedServer(t, d, oneUser(), policies))
	for _, c := range []struct {
		tool, guest, code, text string // text is an error's
		kept                    bool
		bookings                int
	}{
		{"book", "Busy", "", "", true, 1},
		{"book", "Hidden", "", "", true, 1},
		{"book", "HiddenFinal", "", "", true, 1},
		{"book", "Taken", "", "no room", false, 0},
		{"book", "TakenFinal", "refused", "no room", true, 0},
		{"book", "Ignores", "failed", "a reason on the server's side", false, 0},
		{"book", "Declined", "refused", "card declined", true, 0},
		{"refuse", "any", "refused", "closed", true, 0},
		{"book", "Refused", "", "no room", false, 0},
	} {
		bookings, records := d.count(t, "bookings"), d.count(t, "tool_dedup")
		for _, duplicate := range []bool{false, true} {
			res := call(t, cs, c.tool, args{"guest": c.guest, mcpdedup.KeyArgument: c.guest})
			require.Equal(t, c.text != "", res.IsError, "%s: %s", c.guest, text(res))
			require.Equal(t, c.code, code(res), c.guest)
			require.Equal(t, c.kept, res.Meta[door.MetaDuplicate] == duplicate, c.guest)
			if c.text != "" {
				require.Contains(t, text(res), c.text, c.guest)
			}
		}
		require.Equal(t, bookings+c.bookings, d.count(t, "bookings"), c.guest)
		require.Equal(t, c.kept, d.count(t, "tool_dedup") == records+1, c.guest)
	}
	_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "book", Arguments: args{"guest": "Wire", mcpdedup.KeyArgument: "Refused"}})
	require.ErrorContains(t, err, "teapot")
	res := call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "Refused"})
	require.False(t, res.IsError, "the key is free: %s", text(res))
}

// TestMiddlewareWithoutKey: a call without a key has no record, and its handler cannot end its
// transaction either.
func TestMiddlewareWithoutKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	cs := connect(t, wrappedServer(t, d, collecting(&told, mcpdedup.SingleUser("house")), map[string]mcpdedup.Policy{"book": {Class: tool.Idempotent}}))
	for range 2 {
		res := call(t, cs, "book", args{"guest": "Ada"})
		require.False(t, res.IsError, text(res))
		require.NotContains(t, res.Meta, door.MetaDuplicate)
	}
	require.Equal(t, "no room", text(call(t, cs, "book", args{"guest": "Refused"})))
	require.Equal(t, 2, d.count(t, "bookings"))
	requireSame(t, call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"}), call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"}))
	require.Empty(t, told)

	res := call(t, cs, "book", args{"guest": "Ends"})
	require.True(t, res.IsError)
	require.NotContains(t, text(res), "no room")
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0].Err, dedup.ErrInvalid)
	require.Equal(t, 3, d.count(t, "bookings"), "the COMMIT was refused")
}

// TestMiddlewareRefusesPolicies: a policy that no call could use is refused at start-up.
func TestMiddlewareRefusesPolicies(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil).tools.Deduper()
	_, err := mcpdedup.Middleware(d, map[string]mcpdedup.Policy{
		"a": {Class: tool.External}, "b": {}, "c": {Class: tool.Write}, "d": {Class: tool.Write, Retention: dedup.Retention{Result: -1, Tombstone: -1}},
	}, oneUser())
	var refused *tool.RegistrationError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Problems, 3)
	for i, want := range []string{"a: Class is none that a transaction holds", "b: Class is missing", "d: Retention"} {
		p := refused.Problems[i]
		require.Contains(t, p.Tool+": "+p.Field+" "+p.Reason, want)
	}
	for _, opts := range []*mcpdedup.Options{
		{Scope: mcpdedup.TokenUser, Envelope: true},
		{Scope: mcpdedup.TokenUser, Explain: func(context.Context, error) (string, bool) { return "", false }},
	} {
		_, err = mcpdedup.Middleware(d, policies, opts)
		require.ErrorIs(t, err, dedup.ErrInvalid)
	}
	require.Panics(t, func() { _, _ = mcpdedup.Middleware(nil, policies, oneUser()) })
}

func TestMiddlewareLists(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := wrappedServer(t, d, oneUser(), policies)
	for range 2 { // the server's own tools are not changed
		list, err := connect(t, server).ListTools(t.Context(), nil)
		require.NoError(t, err)
		requireGolden(t, "middleware.golden.json", asJSON(t, list.Tools)+"\n")
	}

	server.AddTool(&mcp.Tool{Name: "find", InputSchema: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"idempotencyKey": {}}}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	_, err := connect(t, server).ListTools(t.Context(), nil)
	require.NoError(t, err, "a tool that reads may have an argument of that name")
	var told []mcpdedup.Failure
	wrap(t, server, d.tools, collecting(&told, mcpdedup.TokenUser), map[string]mcpdedup.Policy{"book": {Class: tool.Write}, "find": {Class: tool.Write}})
	_, err = connect(t, server).ListTools(t.Context(), nil)
	require.Error(t, err)
	require.NotEmpty(t, told)
	require.ErrorContains(t, told[0].Err, "rename it")
}

// TestRecordsOfTheOtherKind: a tool is put behind the middleware, or taken out, between a call and
// its repeat. The repeat is not carried out, and gets an error instead of the other kind's record.
func TestRecordsOfTheOtherKind(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	added := connect(t, d.server(t, collecting(&told, mcpdedup.SingleUser("house"))))
	wrapped := connect(t, wrappedServer(t, d, collecting(&told, mcpdedup.SingleUser("house")), policies))
	for key, order := range map[string][2]*mcp.ClientSession{"k1": {added, wrapped}, "k2": {wrapped, added}} {
		arguments := args{"guest": "Ada", mcpdedup.KeyArgument: key}
		first := call(t, order[0], "book", arguments)
		require.False(t, first.IsError, text(first))
		other := call(t, order[1], "book", arguments)
		require.True(t, other.IsError, asJSON(t, other))
		require.Equal(t, "failed", code(other))
		requireSame(t, first, call(t, order[0], "book", arguments))
	}
	require.Len(t, told, 2)
	for _, f := range told {
		require.ErrorIs(t, f.Err, dedup.ErrInvalid)
	}
	require.Equal(t, 2, d.count(t, "bookings"))
}

// TestMiddlewareKeepsTheVersion: from version 2026-07-28 on every result has a resultType, also the
// middleware's own.
func TestMiddlewareKeepsTheVersion(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := wrappedServer(t, d, oneUser(), policies)
	for _, version := range []string{withSession, withoutSession} {
		cs := connect(t, server, version)
		says := func(name string, arguments args) string {
			var wire struct{ ResultType string }
			require.NoError(t, json.Unmarshal([]byte(asJSON(t, call(t, cs, name, arguments))), &wire))
			return wire.ResultType
		}
		want := says("find", nil) // the SDK's own result
		require.Equal(t, version == withoutSession, want == "complete")
		for range 2 {
			require.Equal(t, want, says("book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"}))
		}
		require.Equal(t, want, says("book", args{"guest": "Ada"}))
		require.Equal(t, want, says("book", args{"guest": "Refused", mcpdedup.KeyArgument: "k2"}))
	}
}

// TestMiddlewareRequestOfEachRun: a handler that runs again gets the request as it came, not as the
// run that was rolled back left it.
func TestMiddlewareRequestOfEachRun(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := newServer()
	var seen []string
	server.AddTool(&mcp.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			order := req.Params.Meta["order"].(map[string]any)
			lines := order["lines"].([]any)
			seen = append(seen, fmt.Sprint(order["id"], lines[0], string(req.Params.Arguments)))
			delete(order, "id")
			lines[0] = "changed"
			copy(req.Params.Arguments, `{"guest":"Bob"}`)
			if tx, _ := mcpdedup.Tx(ctx); len(seen) == 1 {
				_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`)
				return nil, err
			}
			return &mcp.CallToolResult{}, nil
		})
	wrap(t, server, d.tools, oneUser(), map[string]mcpdedup.Policy{"book": {Class: tool.Write}})
	res, err := connect(t, server).CallTool(t.Context(), &mcp.CallToolParams{
		Meta: mcp.Meta{"order": args{"id": "o1", "lines": []any{"a"}}},
		Name: "book", Arguments: args{"guest": "Ada", mcpdedup.KeyArgument: "k"},
	})
	require.NoError(t, err)
	require.False(t, res.IsError)
	require.Equal(t, []string{`o1a{"guest":"Ada"}`, `o1a{"guest":"Ada"}`}, seen)
}
