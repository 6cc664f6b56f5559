package mcpdedup_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// TestToolsAreShown compares the tools of every class, as clients see them, with a golden file.
func TestToolsAreShown(t *testing.T) {
	t.Parallel()
	list, err := connect(t, newDesk(t, nil).server(t, oneUser())).ListTools(t.Context(), nil)
	require.NoError(t, err)
	requireGolden(t, "tools.golden.json", asJSON(t, list.Tools)+"\n")
}

func TestOptionsAreRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	for _, opts := range []*mcpdedup.Options{nil, {}, {Scope: mcpdedup.SingleUser("a"), RetryAfter: 1},
		{Scope: mcpdedup.SingleUser("a"), RetryAfter: math.MinInt64}, {Scope: mcpdedup.SingleUser("a"), RetryAfter: math.MaxInt64}} {
		var refused *dedup.InvalidError
		require.ErrorAs(t, mcpdedup.AddTools(newServer(), d.tools, opts), &refused)
		_, err := mcpdedup.Middleware(d.tools.Deduper(), nil, opts)
		require.ErrorAs(t, err, &refused)
	}
}

type undescribed struct {
	N int `json:"n" jsonschema:"minimum=1"`
}

// TestToolsAreRefused: the error lists every fault of every tool.
func TestToolsAreRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	tools := tool.NewRegistry(d.tools.Deduper(), nil)
	require.NoError(t, tools.Add(
		nothing[struct {
			Key string `json:"idempotencyKey"`
		}]("a_key", tool.Write),
		nothing[findIn]("c/slash", tool.Write),
		nothing[undescribed]("d_undescribed", tool.ReadOnly),
		tool.Tool[findIn, undescribed]{Name: "e_result", Class: tool.ReadOnly,
			Run: func(context.Context, pgx.Tx, findIn) (u undescribed, err error) { return u, nil }},
		// These are accepted: their key is not an added argument.
		nothing[struct {
			Key string `json:"idempotencyKey" dedup:"key"`
		}]("own_key", tool.Write),
		nothing[struct {
			Key string `json:"idempotencyKey"`
		}]("read_key", tool.ReadOnly),
	))
	err := mcpdedup.AddTools(newServer(), tools, oneUser())
	var refused *tool.RegistrationError
	require.ErrorAs(t, err, &refused)
	requireGolden(t, "refused_tools.golden", err.Error()+"\n")
}

// nothing is a tool that does nothing.
func nothing[In any](name string, class tool.Class) tool.Tool[In, booking] {
	return tool.Tool[In, booking]{Name: name, Class: class, Run: func(context.Context, pgx.Tx, In) (b booking, err error) { return b, nil }}
}

// addTool exposes a tool in a new registry.
func addTool(server *mcp.Server, beside *tool.Registry, opts *mcpdedup.Options, t tool.Definition) error {
	tools := tool.NewRegistry(beside.Deduper(), nil)
	if err := tools.Add(t); err != nil {
		return err
	}
	return mcpdedup.AddTools(server, tools, opts)
}

type colour [3]uint8

func (c colour) MarshalText() ([]byte, error)     { return []byte("red"), nil }
func (c *colour) UnmarshalText(text []byte) error { return nil }

func TestTypesThatWriteTheirOwnJSON(t *testing.T) {
	t.Parallel()
	type in struct {
		Text   colour           `json:"text"`
		Raw    json.RawMessage  `json:"raw"`
		Maybe  *json.RawMessage `json:"maybe"`
		Bytes  []byte           `json:"bytes"`
		Given  []cents          `json:"given"`
		Nested map[string]struct {
			Text *colour `json:"text"`
		} `json:"nested"`
	}
	server := newServer()
	require.NoError(t, addTool(server, newDesk(t, nil).tools, oneUser(), nothing[in]("types", tool.ReadOnly)))
	list, err := connect(t, server).ListTools(t.Context(), &mcp.ListToolsParams{})
	require.NoError(t, err)
	requireGolden(t, "types.golden.json", asJSON(t, list.Tools[0].InputSchema)+"\n")
}

type cents struct{ n int64 }

func (c cents) MarshalJSON() ([]byte, error) { return json.Marshal(c.n) }
func (c *cents) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &c.n)
}
