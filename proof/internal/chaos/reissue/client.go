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

// longestCall is how long a client waits at most before it cancels a call that it
// cancels.
const longestCall = 15 * time.Millisecond

// versions are those of MCP that clients speak. Neither needs a session here.
var versions = []string{"2026-07-28", "2025-11-25"}

// client makes calls one after another, each until it is answered.
type client struct {
	url     string
	rng     *rand.Rand
	wire    *http.Transport
	session *mcp.ClientSession
	counts  *counts
}

// call calls the tool for a key until it has an answer, which it returns. Each try is
// a new request.
func (c *client) call(ctx context.Context, key string) (run int64, err error) {
	err = lab.Insist(ctx, func(ctx context.Context, _ int) (err error) {
		if run, err = c.try(ctx, key); err != nil {
			c.hangUp()
		}
		return err
	})
	return run, err
}

// failed is an answer that no client is to be given here.
func failed(text string) error { return lab.Hopeless{Err: errors.New("the call failed: " + text)} }

// errOpen is an answer that says to call again.
var errOpen = errors.New("there is no answer yet")

func (c *client) try(ctx context.Context, key string) (int64, error) {
	if c.session == nil {
		var err error
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
	params := &mcp.CallToolParams{Name: toolName, Arguments: map[string]any{"name": key}}
	if c.counts.dedup {
		c.putKey(params, key)
	}
	c.counts.tried()
	res, err := c.session.CallTool(ctx, params)
	switch {
	case err != nil && cancelled && ctx.Err() != nil:
		c.counts.fault("cancelled by the client")
		return 0, err
	case err != nil:
		return 0, err // a cut connection, or a server that is being started
	case !res.IsError:
		return runOf(res)
	}
	code, _ := res.Meta[door.MetaError].(string)
	switch code {
	case "in_flight", "timeout", "unavailable", "outcome_unknown":
		c.counts.open(code)
		return 0, errOpen
	}
	text, _ := json.Marshal(res)
	if !c.counts.dedup {
		return 0, errOpen // a plain tool knows no better than that it failed
	}
	return 0, failed(string(text))
}

// putKey puts the key where clients may: into _meta or the argument.
func (c *client) putKey(params *mcp.CallToolParams, key string) {
	if c.rng.IntN(2) == 0 {
		params.Meta = mcp.Meta{mcpdedup.MetaKey: key}
		key = "another, which the one in _meta goes before"
	}
	params.Arguments.(map[string]any)[mcpdedup.KeyArgument] = key
}

func runOf(res *mcp.CallToolResult) (int64, error) {
	text, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return 0, err
	}
	var answer lab.Answer
	if err := json.Unmarshal(text, &answer); err != nil || answer.Run == 0 {
		return 0, failed(fmt.Sprintf("a result without a run: %s", text))
	}
	return answer.Run, nil
}

func (c *client) connect(ctx context.Context) (*mcp.ClientSession, error) {
	transport := &mcp.StreamableClientTransport{Endpoint: c.url, HTTPClient: &http.Client{Transport: c.wire}, MaxRetries: -1, DisableStandaloneSSE: true}
	return mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).
		Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: versions[c.rng.IntN(len(versions))]})
}

// hangUp drops the connection, or not: what follows is a new request in either case.
func (c *client) hangUp() {
	if c.session != nil && c.rng.IntN(2) == 0 {
		_ = c.session.Close()
		c.session = nil
		c.wire.CloseIdleConnections()
	}
}
