package mcpdedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// TestRecordsOfTheOtherKind: a tool goes behind the middleware, or comes out of
// it, between a call and its repeat. The repeat is neither carried out nor
// answered with what nobody said.
func TestRecordsOfTheOtherKind(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	added := connect(t, d.server(t, collecting(&told, mcpdedup.SingleUser("house"))))
	guarded := connect(t, guardedServer(t, d, collecting(&told, mcpdedup.SingleUser("house")), policies))
	for key, order := range map[string][2]*mcp.ClientSession{"k1": {added, guarded}, "k2": {guarded, added}} {
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

// TestMiddlewareIdentifiesReaders: Options.Scope is asked for every call, of
// ReadOnly tools too.
func TestMiddlewareIdentifiesReaders(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	cs := connect(t, guardedServer(t, d, collecting(&told, mcpdedup.TokenUser), policies))
	require.Equal(t, "unidentified", code(call(t, cs, "find", nil)))
	require.Len(t, told, 1)
}

// TestMiddlewareRefusesPolicies: what no call could be made with is told at
// start-up.
func TestMiddlewareRefusesPolicies(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil).tools.Deduper()
	_, err := mcpdedup.Middleware(d, map[string]mcpdedup.Policy{"book": {Class: tool.Write, Retention: dedup.Retention{Result: -time.Hour}}}, oneUser())
	var refused *tool.RegistrationError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Problems, 1)
	require.Equal(t, "book", refused.Problems[0].Tool)
	require.Panics(t, func() { _, _ = mcpdedup.Middleware(nil, policies, oneUser()) })
}

// TestMiddlewareKeepsTheVersion: from 2026-07-28 on a result says of which type
// it is, and so do those that the middleware gives in place of a handler.
func TestMiddlewareKeepsTheVersion(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := guardedServer(t, d, oneUser(), policies)
	for _, version := range []string{withSession, withoutSession} {
		cs := connect(t, server, version)
		says := func(name string, arguments args) string {
			var wire struct{ ResultType string }
			require.NoError(t, json.Unmarshal([]byte(asJSON(t, call(t, cs, name, arguments))), &wire))
			return wire.ResultType
		}
		want := says("find", nil) // the SDK's own
		require.Equal(t, version == withoutSession, want == "complete")
		for range 2 {
			require.Equal(t, want, says("book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"}))
		}
		require.Equal(t, want, says("book", args{"guest": "Ada"}))
		require.Equal(t, want, says("book", args{"guest": "Refused", mcpdedup.KeyArgument: "k2"}))
	}
}

// TestMiddlewareRecordsFinal: what a handler wraps so is the answer of every
// call, and the same each time.
func TestMiddlewareRecordsFinal(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := newServer()
	mcp.AddTool(server, &mcp.Tool{Name: "book"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, booking, error) {
		return nil, booking{}, dedup.Final(errors.New("card declined"))
	})
	guard, err := mcpdedup.Middleware(d.tools.Deduper(), policies, oneUser())
	require.NoError(t, err)
	server.AddReceivingMiddleware(guard)
	cs := connect(t, server)
	for _, duplicate := range []bool{false, true} {
		res := call(t, cs, "book", args{mcpdedup.KeyArgument: "k"})
		require.Equal(t, "refused", code(res))
		require.Equal(t, "card declined", text(res))
		require.Equal(t, duplicate, res.Meta[door.MetaDuplicate])
	}
}

// TestRecordedDriverErrors: a tool that records all errors records those of the
// driver too, which quote values and name columns.
func TestRecordedDriverErrors(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	server := newServer()
	require.NoError(t, addTool(server, d.tools, collecting(&told, mcpdedup.SingleUser("house")), tool.Tool[bookIn, booking]{
		Name: "encode", Class: tool.Write, StoreErrors: true,
		Run: func(ctx context.Context, tx pgx.Tx, in bookIn) (b booking, err error) {
			_, err = tx.Exec(ctx, `SELECT $1::bigint`, in.Extra)
			return b, err
		},
	}))
	require.NoError(t, addTool(server, d.tools, collecting(&told, mcpdedup.SingleUser("house")), tool.Tool[bookIn, booking]{
		Name: "scan", Class: tool.Write, StoreErrors: true,
		Run: func(ctx context.Context, tx pgx.Tx, _ bookIn) (b booking, err error) {
			return b, tx.QueryRow(ctx, `SELECT NULL::text AS canary`).Scan(&b.Guest)
		},
	}))
	cs := connect(t, server)
	for _, name := range []string{"encode", "scan"} {
		for range 2 {
			res := call(t, cs, name, args{"guest": "Ada", "extra": []string{"canary"}, mcpdedup.KeyArgument: "k"})
			require.Equal(t, "refused", code(res))
			require.NotContains(t, asJSON(t, res), "canary")
			require.NotContains(t, text(res), "OID")
		}
	}
	require.Len(t, told, 4)
}
