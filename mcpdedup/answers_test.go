package mcpdedup_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
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

// TestFaultsAreHidden: a client sees neither SQL nor names; OnError gets all of them.
func TestFaultsAreHidden(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	opts := collecting(&told, mcpdedup.SingleUser("house"))
	res := call(t, connect(t, d.server(t, opts)), "find", args{"guest": "broken"})
	require.Equal(t, "failed", code(res))
	require.NotContains(t, asJSON(t, res), "canary")
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0].Err, dedup.ErrInvalid)
	require.ErrorContains(t, told[0].Err, "registered as ReadOnly")

	opts.Explain = func(_ context.Context, err error) (string, bool) { return "No such order.", true }
	res = call(t, connect(t, d.server(t, opts)), "find", args{"guest": "broken"})
	require.True(t, res.IsError)
	require.Equal(t, "No such order.", text(res))
	require.Len(t, told, 1)
}

// TestRecordedDriverErrors: a tool that records all errors records the driver's too, which quote
// values and name columns.
func TestRecordedDriverErrors(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	server := newServer()
	require.NoError(t, addTool(server, d.tools, collecting(&told, mcpdedup.SingleUser("house")), tool.Tool[bookIn, booking]{
		Name: "record", Class: tool.Write, StoreErrors: true,
		Run: func(ctx context.Context, tx pgx.Tx, in bookIn) (b booking, err error) {
			if in.Guest == "scan" {
				return b, tx.QueryRow(ctx, `SELECT NULL::text AS canary`).Scan(&b.Guest)
			}
			_, err = tx.Exec(ctx, `SELECT $1::bigint`, in.Extra)
			return b, err
		},
	}))
	cs := connect(t, server)
	for _, name := range []string{"encode", "scan"} {
		for range 2 {
			res := call(t, cs, "record", args{"guest": name, "extra": []string{"canary"}, mcpdedup.KeyArgument: name})
			require.Equal(t, "refused", code(res))
			require.NotContains(t, asJSON(t, res), "canary")
			require.NotContains(t, text(res), "OID")
		}
	}
	require.Len(t, told, 4)
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
		CreatedAt string
	}
	for _, duplicate := range []bool{false, true} {
		res := call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"})
		require.NoError(t, json.Unmarshal([]byte(text(res)), &wrapped))
		require.JSONEq(t, `{"id":9007199254740993,"guest":"Ada"}`, string(wrapped.Result))
		require.Equal(t, duplicate, wrapped.Duplicate)
		require.Equal(t, res.Meta[door.MetaCreatedAt], wrapped.CreatedAt)
		require.NotNil(t, res.StructuredContent)
	}
	res := call(t, cs, "find", args{"guest": "Bob"})
	require.JSONEq(t, `{"status":"done","result":[],"duplicate":false}`, text(res))

	// References to the definitions of a recursive type start at the root of the envelope's schema.
	server := newServer()
	require.NoError(t, addTool(server, d.tools, opts, tool.Tool[struct{}, tree]{Name: "tree", Class: tool.ReadOnly,
		Run: func(context.Context, pgx.Tx, struct{}) (tree, error) { return tree{Kids: []tree{{}}}, nil }}))
	cs = connect(t, server)
	list, err = cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal([]byte(asJSON(t, list.Tools[0].OutputSchema)), &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)
	require.NoError(t, resolved.Validate(call(t, cs, "tree", args{}).StructuredContent))
	require.Error(t, resolved.Validate(map[string]any{"duplicate": false, "result": map[string]any{"kids": 7}}))
}

type tree struct {
	Kids []tree `json:"kids"`
}
