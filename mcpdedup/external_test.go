package mcpdedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// till is a desk whose registry has external tools. The guest decides the outcome of a payment; the
// guest Slow waits until it is released.
type till struct {
	*desk
	x                *external.Tools
	entered, release chan struct{}
}

type payment struct {
	ID string `json:"id"`
}

func newTill(t *testing.T) *till {
	t.Helper()
	d := &till{desk: newDesk(t, nil), entered: make(chan struct{}), release: make(chan struct{})}
	var err error
	d.x, err = external.New(d.tools.Deduper(), nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		require.NoError(t, d.x.Close(ctx))
	})
	d.tools = tool.NewRegistry(d.tools.Deduper(), &tool.Options{External: d.x})
	require.NoError(t, d.tools.Add(
		tool.ExternalTool[chargeIn, payment]{
			Description: "Charge a guest's card.", Tool: d.pay(), MaxWait: -1,
		},
		tool.ExternalTool[cancelIn, []string]{
			Description: "Send a letter.", Class: tool.Destructive, Tool: external.Tool[cancelIn, []string]{
				Name: "send_letter", Perform: func(_ context.Context, _ external.Attempt, in cancelIn) ([]string, error) {
					return []string{in.Ref}, nil
				},
			},
		},
	))
	return d
}

func (d *till) pay() external.Tool[chargeIn, payment] {
	return external.Tool[chargeIn, payment]{
		Name: "pay", Perform: func(ctx context.Context, _ external.Attempt, in chargeIn) (payment, error) {
			switch in.Guest {
			case "Lost":
				return payment{}, errors.New("canary")
			case "Declined":
				return payment{}, dedup.Final(errors.New("the card was declined"))
			case "Slow":
				close(d.entered)
				select {
				case <-d.release:
				case <-ctx.Done():
				}
			}
			return payment{fmt.Sprintf("ch_<%s>", in.Guest)}, nil
		},
	}
}

func paying(key, guest string) args {
	return args{"guest": guest, "amount": 5, mcpdedup.KeyArgument: key}
}

func asking(operation string) args { return args{"operation": operation} }

var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// TestExternal compares the answers in each state with a golden file, and every answer with the
// schema that its tool declares.
func TestExternal(t *testing.T) {
	t.Parallel()
	d := newTill(t)
	cs := connect(t, d.server(t, oneUser()))
	list, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	schemas := map[string]*jsonschema.Resolved{}
	for _, shown := range list.Tools {
		var schema jsonschema.Schema
		require.NoError(t, json.Unmarshal([]byte(asJSON(t, shown.OutputSchema)), &schema))
		schemas[shown.Name], err = schema.Resolve(nil)
		require.NoError(t, err)
	}
	var golden strings.Builder
	fmt.Fprintf(&golden, "%s\n", asJSON(t, list.Tools))
	told := func(what, name string, arguments args) {
		t.Helper()
		res := call(t, cs, name, arguments)
		require.NotContains(t, asJSON(t, res), "canary")
		if res.IsError {
			require.Nil(t, res.StructuredContent)
		} else {
			require.NoError(t, schemas[name].Validate(res.StructuredContent))
			require.JSONEq(t, text(res), asJSON(t, res.StructuredContent))
		}
		meta, err := json.Marshal(res.Meta)
		require.NoError(t, err)
		fmt.Fprintf(&golden, "== %s: %s\n%s\n\t%s error: %v\n", name, what, moment.ReplaceAllString(text(res), "TIME"), moment.ReplaceAllString(string(meta), "TIME"), res.IsError)
	}

	told("done", "pay", paying("k1", "Ada"))
	told("done before", "pay", paying("k1", "Ada"))
	told("done", "get_operation", asking("pay/k1"))
	told("refused", "pay", paying("k2", "Declined"))
	told("refused", "get_operation", asking("pay/k2"))
	told("parked", "pay", paying("k3", "Lost"))
	told("parked before", "pay", paying("k3", "Lost"))
	told("parked", "get_operation", asking("pay/k3"))
	told("another guest", "pay", paying("k3", "Ada"))

	twin := connect(t, d.server(t, oneUser()))
	first := make(chan *mcp.CallToolResult)
	go func() {
		res, _ := twin.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{Name: "pay", Arguments: paying("k/4", "Slow")})
		first <- res
	}()
	<-d.entered
	told("running", "pay", paying("k/4", "Slow"))
	told("running", "get_operation", asking("pay/k/4"))
	close(d.release)
	require.Contains(t, text(<-first), `"status":"done"`)

	other, err := external.New(d.tools.Deduper(), nil)
	require.NoError(t, err)
	h, err := external.Add(other, d.pay())
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error {
		_, err := h.Accept(t.Context(), tx, dedup.Call{Scope: "house", Key: "k5"}, chargeIn{Guest: "Ada", Amount: 5})
		return err
	}))
	told("pending", "get_operation", asking("pay/k5"))

	told("a result that is no object", "send_letter", args{"ref": "r-1"})
	told("a result that is no object", "get_operation", asking("send_letter/r-1"))
	_, err = d.pool.Exec(t.Context(), `UPDATE tool_dedup SET expires_at = created_at WHERE key = 'k1'`)
	require.NoError(t, err)
	told("expired", "get_operation", asking("pay/k1"))
	told("not_found", "get_operation", asking("pay/none"))
	told("no operation", "get_operation", asking("nonsense"))
	told("no tool", "get_operation", asking("book/k1"))
	told("no key", "get_operation", asking("pay/"))
	told("no text", "get_operation", args{"operation": 7})
	requireGolden(t, "external.golden", golden.String())

	// Another principal's operations are unknown.
	stranger := connect(t, d.server(t, &mcpdedup.Options{Scope: mcpdedup.SingleUser("another")}))
	for _, key := range []string{"k1", "k2", "k3", "k/4", "k5"} {
		require.Contains(t, text(call(t, stranger, "get_operation", asking("pay/"+key))), `"status":"not_found"`)
	}
}

// TestExternalToolsAreRefused: no other tool can have the name get_operation if there are external
// tools, and get_operation is added only with them.
func TestExternalToolsAreRefused(t *testing.T) {
	t.Parallel()
	d := newTill(t)
	require.NoError(t, d.tools.Add(nothing[findIn]("get_operation", tool.ReadOnly)))
	err := mcpdedup.AddTools(newServer(), d.tools, oneUser())
	require.EqualError(t, err, "tool: not registered:\n\tget_operation: Name is that of the tool that is added beside external ones; rename it")

	alone := tool.NewRegistry(d.tools.Deduper(), nil)
	require.NoError(t, alone.Add(nothing[findIn]("get_operation", tool.ReadOnly)))
	require.NoError(t, mcpdedup.AddTools(newServer(), alone, oneUser()))
}

// TestLongTypeScriptClientTakesOperations: a client that checks results against their schemas
// accepts done, parked and refused calls, and look-ups.
func TestLongTypeScriptClientTakesOperations(t *testing.T) {
	t.Parallel()
	script := installTypeScript(t)
	d := newTill(t)
	url := serve(t, d.server(t, &mcpdedup.Options{Scope: mcpdedup.TokenUser}))
	calls := []args{
		{"tool": "pay", "arguments": paying("k1", "Ada")},
		{"tool": "pay", "arguments": paying("k2", "Lost")},
		{"tool": "pay", "arguments": paying("k3", "Declined")},
		{"tool": "send_letter", "arguments": args{"ref": "r-1"}},
		{"tool": "get_operation", "arguments": asking("pay/k1")},
		{"tool": "get_operation", "arguments": asking("pay/k2")},
		{"tool": "get_operation", "arguments": asking("pay/k3")},
		{"tool": "get_operation", "arguments": asking("pay/k4")},
	}
	var got struct {
		Answers []struct {
			Error  string
			Result struct {
				IsError           bool
				StructuredContent struct{ Status string }
			}
		}
	}
	node(t, script, args{"url": url, "token": "alice", "calls": calls}, &got)
	var statuses []string
	for i, answer := range got.Answers {
		require.Empty(t, answer.Error, calls[i])
		require.Equal(t, i == 2, answer.Result.IsError)
		statuses = append(statuses, answer.Result.StructuredContent.Status)
	}
	require.Equal(t, []string{"done", "parked", "", "done", "done", "parked", "refused", "not_found"}, statuses)
}
