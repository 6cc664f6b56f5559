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
	"golang.org/x/oauth2"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
)

// metaRef is the name of the call in the _meta of a delivery by MCP.
const metaRef = "call-ref"

// serveMCP serves an MCP server of each domain's tools at /{domain}. In mode Dedup mcpdedup exposes
// them. Otherwise they are plain.
func (s *server) serveMCP() error {
	for name, d := range s.domains {
		server := mcp.NewServer(&mcp.Implementation{Name: name}, nil)
		server.AddReceivingMiddleware(withRef)
		if s.mode == Dedup {
			opts := &mcpdedup.Options{Scope: mcpdedup.TokenUser, KeysInMeta: true, Explain: explainRefusal}
			if err := mcpdedup.AddTools(server, d.registry, opts); err != nil {
				return err
			}
		} else {
			for _, t := range d.tools {
				open := json.RawMessage(`{"type":"object"}`)
				server.AddTool(&mcp.Tool{Name: t.Name, InputSchema: open}, d.naiveMCP(t))
			}
		}
		streamable := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
		s.mux.Handle("/"+name, auth.RequireBearerToken(verifyToken, nil)(streamable))
	}
	return nil
}

// verifyToken takes the bearer token as the principal, as bearerScope does.
func verifyToken(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
}

func withRef(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if call, ok := request.(*mcp.CallToolRequest); ok {
			ref, _ := call.Params.Meta[metaRef].(string)
			ctx = ledger.WithRef(ctx, ref)
		}
		return next(ctx, method, request)
	}
}

// refused begins the texts of explainRefusal.
const refused = "refused: "

// explainRefusal shows clients the refusals of reads. Refusals of writes have a record.
func explainRefusal(_ context.Context, err error) (string, bool) {
	refusal, ok := errors.AsType[*ledger.Refusal](err)
	if !ok {
		return "", false
	}
	return refused + refusal.Text, true
}

func (d *domain) naiveMCP(t ledger.Tool) mcp.ToolHandler {
	return func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		out, err := d.naive(ctx, t)
		text, refused := explainRefusal(ctx, err)
		if err != nil && !refused {
			return nil, err
		}
		if !refused {
			result, _ := json.Marshal(out) // a text and a number
			text = string(result)
		}
		return &mcp.CallToolResult{IsError: refused, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
}

// mcpClient delivers by MCP. Each principal has a session with each server of a worker. After a
// failure all sessions are replaced.
type mcpClient struct {
	base string
	web  *http.Client

	mu       sync.Mutex
	sessions map[account]*mcp.ClientSession
}

// account is a principal at a server.
type account struct{ domain, scope string }

func newMCPClient(base string, web *http.Client) *mcpClient {
	return &mcpClient{base: base, web: web, sessions: map[account]*mcp.ClientSession{}}
}

// Deliver implements Client.
func (c *mcpClient) Deliver(ctx context.Context, d Delivery) (Answer, error) {
	key, err := d.key()
	if err != nil {
		return Answer{}, err
	}
	caller := account{d.Domain, d.Scope}
	session, err := c.session(ctx, caller)
	if err != nil {
		return Answer{}, fmt.Errorf("connecting: %w", err)
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Meta: mcp.Meta{mcpdedup.MetaKey: key, metaRef: d.Ref},
		Name: d.Tool, Arguments: d.input(),
	})
	if err != nil {
		c.giveUp()
		return Answer{}, err
	}
	return readMCP(result)
}

// session returns the session of an account, and connects first if there is none.
func (c *mcpClient) session(ctx context.Context, caller account) (*mcp.ClientSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if session := c.sessions[caller]; session != nil {
		return session, nil
	}
	token := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: caller.scope})
	session, err := mcp.NewClient(&mcp.Implementation{Name: "dedup-replay"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:   c.base + "/" + caller.domain,
		HTTPClient: &http.Client{Transport: &oauth2.Transport{Base: c.web.Transport, Source: token}},
		MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, err
	}
	c.sessions[caller] = session
	return session, nil
}

// giveUp closes all sessions: they belong to one process.
func (c *mcpClient) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, session := range c.sessions {
		_ = session.Close() // its server may be gone
	}
	clear(c.sessions)
}

// readMCP converts a result into an answer. A tool error is an answer only if it is the tool's
// refusal.
func readMCP(result *mcp.CallToolResult) (Answer, error) {
	var told string
	for _, content := range result.Content {
		if content, ok := content.(*mcp.TextContent); ok {
			told += content.Text
		}
	}
	replayed, _ := result.Meta[door.MetaDuplicate].(bool)
	var out ledger.Out
	switch {
	case !result.IsError && json.Unmarshal([]byte(told), &out) == nil:
		return Answer{Text: out.Text, Entry: out.Entry, Replayed: replayed}, nil
	case result.Meta[door.MetaError] == "refused":
		return Answer{Text: told, Refused: true, Replayed: replayed}, nil
	case strings.HasPrefix(told, refused): // from explainRefusal
		return Answer{Text: strings.TrimPrefix(told, refused), Refused: true}, nil
	default:
		return Answer{}, fmt.Errorf("tool error %v: %.300s", result.Meta[door.MetaError], told)
	}
}

// Close implements Client.
func (c *mcpClient) Close() {
	c.giveUp()
	c.web.CloseIdleConnections()
}
