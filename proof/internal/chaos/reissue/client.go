package reissue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// longestCall bounds the wait of a client before it cancels a call.
const longestCall = 15 * time.Millisecond

// versions are the MCP versions of the clients. Neither needs a session here.
var versions = []string{"2026-07-28", "2025-11-25"}

// client makes calls in turn, each until it is answered.
type client struct {
	*arm
	url     string
	rng     *rand.Rand
	wire    *http.Transport
	session *mcp.ClientSession
}

// failed is an answer that no client may get here.
func failed(text []byte) error { return lab.Hopeless{Err: fmt.Errorf("the call failed: %s", text)} }

// errOpen is an answer that asks the client to call again.
var errOpen = errors.New("there is no answer yet")

// call is a [lab.Caller]. Each try is a new request.
func (c *client) call(ctx context.Context, _ *lab.Client, key string) (run int64, err error) {
	defer func() {
		if err != nil && c.rng.IntN(2) == 0 {
			c.hangUp()
		}
	}()
	if c.session == nil {
		if c.session, err = c.connect(ctx); err != nil {
			return 0, err
		}
	}
	cancelled := c.rng.IntN(4) == 0
	if cancelled {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.rng.Int64N(int64(longestCall))))
		defer cancel()
	}
	c.tried()
	res, err := c.session.CallTool(ctx, c.params(key))
	switch {
	case err != nil && cancelled && ctx.Err() != nil:
		c.fault("cancelled by the client")
		return 0, err
	case err != nil:
		return 0, err // a cut connection, or a server that is starting
	}
	text, err := json.Marshal(res)
	if err != nil {
		return 0, err
	}
	code, _ := res.Meta[door.MetaError].(string)
	switch {
	case code == "in_flight", code == "timeout", code == "unavailable", code == "outcome_unknown":
		c.note(func() { c.opens[code]++ })
		return 0, errOpen
	case res.IsError && !c.dedup:
		return 0, errOpen // a plain tool only knows that it failed
	case res.IsError:
		return 0, failed(text)
	}
	var answer struct{ StructuredContent lab.Answer }
	if err := json.Unmarshal(text, &answer); err != nil || answer.StructuredContent.Run == 0 {
		return 0, failed(text)
	}
	return answer.StructuredContent.Run, nil
}

// params are a call's parameters. The key is in _meta or in the argument.
func (c *client) params(key string) *mcp.CallToolParams {
	arguments := map[string]any{"name": key}
	params := &mcp.CallToolParams{Name: toolName, Arguments: arguments}
	switch {
	case !c.dedup:
	case c.rng.IntN(2) == 0:
		params.Meta = mcp.Meta{mcpdedup.MetaKey: key}
		arguments[mcpdedup.KeyArgument] = "another, which the one in _meta goes before"
	default:
		arguments[mcpdedup.KeyArgument] = key
	}
	return params
}

func (c *client) connect(ctx context.Context) (*mcp.ClientSession, error) {
	transport := &mcp.StreamableClientTransport{Endpoint: c.url, HTTPClient: &http.Client{Transport: c.wire}, MaxRetries: -1, DisableStandaloneSSE: true}
	return mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).
		Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: versions[c.rng.IntN(len(versions))]})
}

// hangUp drops the connection. The next try is a new request in any case.
func (c *client) hangUp() {
	if c.session != nil {
		_ = c.session.Close()
		c.session = nil
	}
	c.wire.CloseIdleConnections()
}
