package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/proof/internal/replay/wire"
	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// metaRef names the call in the application's audit log, in the _meta of a
// delivery by MCP.
const metaRef = "call-ref"

// mcpHandler serves an MCP server of each domain's tools at /{domain}. In mode
// Dedup mcpdedup exposes them, else nothing stands before them.
func mcpHandler(e *executor) (http.Handler, error) {
	mux := http.NewServeMux()
	for name, d := range e.domains {
		server := mcp.NewServer(&mcp.Implementation{Name: name}, nil)
		server.AddReceivingMiddleware(withRef)
		if err := e.expose(server, d); err != nil {
			return nil, err
		}
		streamable := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
		mux.Handle("/"+name, auth.RequireBearerToken(verifyToken, nil)(streamable))
	}
	return mux, nil
}

// verifyToken takes the bearer token for the principal itself, as bearerScope does.
func verifyToken(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
}

func withRef(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if call, ok := request.(*mcp.CallToolRequest); ok {
			ref, _ := call.Params.Meta[metaRef].(string)
			ctx = effect.WithCallRef(ctx, ref)
		}
		return next(ctx, method, request)
	}
}

func (e *executor) expose(server *mcp.Server, d *domain) error {
	if e.mode == Dedup {
		return mcpdedup.AddTools(server, d.registry, &mcpdedup.Options{
			Scope: mcpdedup.TokenUser, KeysInMeta: true, Explain: explainRefusal,
		})
	}
	for _, t := range d.tools {
		open := json.RawMessage(`{"type":"object"}`)
		server.AddTool(&mcp.Tool{Name: t.Name, InputSchema: open}, d.naiveMCP(t))
	}
	return nil
}

// explainRefusal tells clients of the refusals of tools that only read. Those of
// the others have a record.
func explainRefusal(_ context.Context, err error) (string, bool) {
	var refusal *kit.Refusal
	if !errors.As(err, &refusal) {
		return "", false
	}
	return refusal.Answer(), true
}

func (d *domain) naiveMCP(t kit.Tool) mcp.ToolHandler {
	return func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := d.naive(ctx, t, request.Params.Arguments)
		told, refused := explainRefusal(ctx, err)
		switch {
		case refused:
			return &mcp.CallToolResult{IsError: true, Content: text(told)}, nil
		case err != nil:
			return nil, err
		}
		return &mcp.CallToolResult{Content: text(string(result))}, nil
	}
}

func text(s string) []mcp.Content { return []mcp.Content{&mcp.TextContent{Text: s}} }

// mcpClient delivers by MCP. Each principal has a session with each server of a
// worker; one that has failed is given up for another.
type mcpClient struct {
	base      string
	transport http.RoundTripper

	mu       sync.Mutex
	sessions map[account]*mcp.ClientSession
}

// account is a principal at a server.
type account struct{ domain, scope string }

func newMCPClient(address string, transport http.RoundTripper) *mcpClient {
	return &mcpClient{base: "http://" + address, transport: transport, sessions: map[account]*mcp.ClientSession{}}
}

// Deliver implements Client.
func (c *mcpClient) Deliver(ctx context.Context, d Delivery) (Answer, error) {
	key, err := dedup.KeyFromToolCall(d.Session, d.Turn, d.ToolCallID)
	if err != nil {
		return Answer{}, err
	}
	caller := account{d.Domain, d.Scope}
	session, err := c.session(ctx, caller)
	if err != nil {
		return Answer{}, fmt.Errorf("connecting: %w", err)
	}
	result, err := session.CallTool(wire.Delivery(ctx), &mcp.CallToolParams{
		Meta: mcp.Meta{mcpdedup.MetaKey: key, metaRef: d.Ref},
		Name: d.Tool, Arguments: d.Args,
	})
	if err != nil {
		c.giveUp(caller)
		return Answer{}, err
	}
	answer, err := readMCP(result)
	answer.ID = d.ID
	return answer, err
}

// session returns the session of an account, and connects where there is none.
func (c *mcpClient) session(ctx context.Context, caller account) (*mcp.ClientSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if session := c.sessions[caller]; session != nil {
		return session, nil
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "dedup-replay"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:   c.base + "/" + caller.domain,
		HTTPClient: &http.Client{Transport: &authorized{c.transport, bearer + caller.scope}},
		MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, err
	}
	c.sessions[caller] = session
	return session, nil
}

func (c *mcpClient) giveUp(caller account) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if session := c.sessions[caller]; session != nil {
		_ = session.Close() // its server may be gone
		delete(c.sessions, caller)
	}
}

// readMCP makes an answer of a result. A tool error is one where it is the tool's
// refusal.
func readMCP(result *mcp.CallToolResult) (Answer, error) {
	var told string
	for _, content := range result.Content {
		if content, ok := content.(*mcp.TextContent); ok {
			told += content.Text
		}
	}
	replayed, _ := result.Meta[mcpdedup.MetaDuplicate].(bool)
	refused := kit.Refusal{Message: told}
	switch {
	case !result.IsError:
		return Answer{Text: kit.Text(json.RawMessage(told)), Replayed: replayed}, nil
	case result.Meta[mcpdedup.MetaError] == string(mcpdedup.CodeRefused):
		return Answer{Text: refused.Answer(), Replayed: replayed}, nil
	case strings.HasPrefix(told, (&kit.Refusal{}).Answer()): // of explainRefusal
		return Answer{Text: told}, nil
	default:
		return Answer{}, fmt.Errorf("tool error %v: %.300s", result.Meta[mcpdedup.MetaError], told)
	}
}

// Close implements Client.
func (c *mcpClient) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, session := range c.sessions {
		_ = session.Close() // its server may be gone
	}
	clear(c.sessions)
}

// authorized sends requests with credentials.
type authorized struct {
	http.RoundTripper
	credentials string
}

// RoundTrip implements http.RoundTripper.
func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", a.credentials)
	return a.RoundTripper.RoundTrip(r)
}
