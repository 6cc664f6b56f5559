package mcpdedup_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/npm"
	"github.com/tooldedup/dedup/mcpdedup"
)

// TestLongTypeScriptClient runs the official TypeScript client against servers, over stdio and over
// streamable HTTP. In both, the answer to a call is cut off after the server committed, and the
// client repeats the call in a new session with the same key.
func TestLongTypeScriptClient(t *testing.T) {
	t.Parallel()
	script := installTypeScript(t)

	for name, sdk := range typeScriptSDKs {
		t.Run("Stdio"+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			binary, err := os.Executable()
			require.NoError(t, err)
			requireTypeScript(t, d, script, args{
				"sdk":     sdk,
				"command": binary,
				"env":     args{asServer: settings{URL: d.db.URL, Cut: true}.String()},
				"again":   args{asServer: settings{URL: d.db.URL}.String()},
			})
		})
		t.Run("HTTP"+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			server := d.server(t, &mcpdedup.Options{Scope: mcpdedup.TokenUser})
			cut := &cutFront{inner: bearer(server, &mcp.StreamableHTTPOptions{Stateless: sdk == 2}), cut: map[string]bool{}}
			requireTypeScript(t, d, script, args{"sdk": sdk, "url": serveBehind(t, server, cut), "token": "alice"})
			require.Len(t, cut.cut, 1, "the server had answered")
		})
	}
}

// typeScriptSDKs are the SDK's versions. The second speaks MCP 2026-07-28.
var typeScriptSDKs = map[string]int{"SDK1": 1, "SDK2": 2}

// TestLongTypeScriptClientTakesSchemas: the client lists tools with odd schemas and accepts their
// results, the first ones and the replays.
func TestLongTypeScriptClientTakesSchemas(t *testing.T) {
	t.Parallel()
	script := installTypeScript(t)

	for name, sdk := range typeScriptSDKs {
		version := map[int]string{1: withSession, 2: withoutSession}[sdk]
		t.Run("Middleware"+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			schemas := map[string]any{}
			for name, odd := range oddSchemas {
				schemas[name] = json.RawMessage(odd.schema)
			}
			server := oddServer(schemas)
			wrapAll(t, d, server, schemas, &mcpdedup.Options{Scope: mcpdedup.TokenUser})
			requireCalls(t, d, script, sdk, serve(t, server, version), slices.Collect(maps.Keys(schemas)))
		})
	}
}

// requireCalls calls each tool, and repeats the call.
func requireCalls(t *testing.T, d *desk, script string, sdk int, url string, tools []string) {
	t.Helper()
	var calls []args
	for _, name := range tools {
		one := args{"tool": name, "arguments": args{mcpdedup.KeyArgument: "k"}}
		calls = append(calls, one, one)
	}
	var got struct {
		Tools   []struct{ Name string }
		Answers []struct {
			Error  string
			Result struct {
				Content []struct{ Text string }
				Meta    map[string]any `json:"_meta"`
				IsError bool
			}
		}
	}
	node(t, script, args{"sdk": sdk, "url": url, "token": "alice", "calls": calls}, &got)
	require.Len(t, got.Tools, len(tools))
	require.Len(t, got.Answers, len(calls))
	for i, answer := range got.Answers {
		require.Empty(t, answer.Error, calls[i]["tool"])
		require.False(t, answer.Result.IsError, calls[i]["tool"])
		require.Equal(t, i%2 == 1, answer.Result.Meta[door.MetaDuplicate])
		require.Equal(t, got.Answers[i-i%2].Result.Content, answer.Result.Content)
	}
	require.Equal(t, len(tools), d.count(t, "effects"))
}

func requireTypeScript(t *testing.T, d *desk, script string, plan args) {
	t.Helper()
	plan["tool"] = "book"
	plan["arguments"] = args{"guest": "Ada", mcpdedup.KeyArgument: "k"}
	type outcome struct {
		Error  string
		Result *struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
			Meta              map[string]any `json:"_meta"`
			IsError           bool
		}
	}
	var got struct {
		Tools []struct {
			Name        string
			InputSchema json.RawMessage
		}
		First, Second outcome
	}
	node(t, script, plan, &got)
	require.NotEmpty(t, got.First.Error, "the first answer was cut off")
	require.Empty(t, got.Second.Error)
	require.False(t, got.Second.Result.IsError)
	require.Equal(t, true, got.Second.Result.Meta[door.MetaDuplicate])
	require.Equal(t, "k", got.Second.Result.Meta[mcpdedup.MetaKey])
	require.JSONEq(t, `{"id":9007199254740993,"guest":"Ada"}`, got.Second.Result.Content[0].Text)
	require.Equal(t, 1, d.count(t, "bookings"))
	require.Equal(t, 1, d.count(t, "tool_dedup"))
	require.Equal(t, "book", got.Tools[0].Name)
	require.Contains(t, string(got.Tools[0].InputSchema), mcpdedup.KeyArgument)
}

// installTypeScript returns the client's script.
func installTypeScript(t *testing.T) (script string) {
	t.Helper()
	return filepath.Join(npm.Install(t, "typescript"), "call.mjs")
}

// node runs a script with a plan, and reads its output.
func node(t *testing.T, script string, plan args, written any) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", script, asJSON(t, plan))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, written), string(out))
}
