package mcpdedup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/mcpdedup"
)

// TestClosedStream: a client ends its call while the server is before or after a step, also around
// COMMIT, in each way that the protocol has. It repeats the call as a new request and gets the
// answer. There must be one booking for each.
func TestClosedStream(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *mcp.Server) closing{
		"HTTP":            closingHTTP(true),
		"HTTPGoesOn":      closingHTTP(false),
		"HTTPWithSession": closingSession,
		"Stdio":           closingStdio(false),
		"StdioEnds":       closingStdio(true),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			tools, proxy := d.proxied(t)
			server := newServer()
			require.NoError(t, mcpdedup.AddTools(server, tools, oneUser()))
			calls := watchCalls(server)
			c := open(t, server)
			_, err := c.call(t.Context(), "warm") // checks the table and prepares statements
			require.NoError(t, err)
			<-calls.ended

			for step, at := range map[string]func(faultproxy.Unit) bool{
				"begin":  faultproxy.AtSQL("pg_try_advisory"),
				"effect": faultproxy.AtSQL("INSERT INTO bookings"),
				"commit": faultproxy.AtCommit,
			} {
				for _, kind := range []faultproxy.Kind{faultproxy.Hold, faultproxy.ReplyDelayed} {
					key := fmt.Sprint(step, " ", kind)
					held := proxy.Arm(faultproxy.Fault{Kind: kind, Where: at})
					ctx, end := context.WithCancel(t.Context())
					failed := make(chan error, 1)
					go func() {
						_, err := c.call(ctx, key)
						failed <- err
					}()
					require.NoError(t, held.Wait(t.Context()), key)
					end()
					require.Error(t, <-failed, key)
					if c.cancels {
						<-calls.cancelled // also if the database keeps the call waiting
					}
					held.Release()
					<-calls.ended

					var again *mcp.CallToolResult
					for again == nil || code(again) == "in_flight" { // until Postgres has noticed the end
						again, err = c.call(t.Context(), key)
						require.NoError(t, err, key)
						<-calls.ended
					}
					require.False(t, again.IsError, "%s: %s", key, text(again))
					committed := step == "commit" || !c.cancels // a COMMIT that was sent is carried out
					require.Equal(t, committed, again.Meta[door.MetaDuplicate], key)
					var bookings int
					var id int64
					require.NoError(t, d.pool.QueryRow(t.Context(), `SELECT count(*), min(id) FROM bookings WHERE guest = $1`, key).Scan(&bookings, &id))
					require.Equal(t, 1, bookings, key)
					require.JSONEq(t, fmt.Sprintf(`{"id":%d,"guest":%q}`, id, key), text(again))
				}
			}
			require.Equal(t, 7, d.count(t, "tool_dedup"))
		})
	}
}

// closing is a client that ends calls by their context.
type closing struct {
	// call books a room for a guest whose name is the key.
	call func(ctx context.Context, key string) (*mcp.CallToolResult, error)
	// cancels reports that the end of a call reaches the tool.
	cancels bool
}

// closingHTTP closes the stream of a request of MCP 2026-07-28, which cancels the call. The SDK's
// server must be told to treat it so; otherwise the call goes on.
func closingHTTP(propagates bool) func(*testing.T, *mcp.Server) closing {
	return func(t *testing.T, server *mcp.Server) closing {
		web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
			&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: propagates}))
		t.Cleanup(web.Close)
		return closing{cancels: propagates, call: func(ctx context.Context, key string) (*mcp.CallToolResult, error) {
			return callKeyed(ctx, connectHTTP(t, web.URL, "alice", withoutSession), key)
		}}
	}
}

// closingSession cancels a call by a message, as versions with sessions do, and repeats it in a new
// session.
func closingSession(t *testing.T, server *mcp.Server) closing {
	url := serve(t, server)
	return closing{cancels: true, call: func(ctx context.Context, key string) (*mcp.CallToolResult, error) {
		return callKeyed(ctx, connectHTTP(t, url, "alice", withSession), key)
	}}
}

// closingStdio cancels a call by a message, or closes the server's input.
func closingStdio(closes bool) func(*testing.T, *mcp.Server) closing {
	return func(t *testing.T, server *mcp.Server) closing {
		return closing{cancels: true, call: func(ctx context.Context, key string) (*mcp.CallToolResult, error) {
			fromClient, toServer := io.Pipe()
			fromServer, toClient := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- server.Run(context.WithoutCancel(ctx), &mcp.IOTransport{Reader: fromClient, Writer: toClient})
			}()
			t.Cleanup(func() { toServer.Close(); <-ended })
			cs := connectOver(t, &mcp.IOTransport{Reader: fromServer, Writer: toServer})
			if !closes {
				return callKeyed(ctx, cs, key)
			}
			stop := context.AfterFunc(ctx, func() {
				toServer.CloseWithError(errors.New("the client has gone"))
				fromServer.CloseWithError(errors.New("the client has gone"))
			})
			defer stop()
			return callKeyed(context.WithoutCancel(ctx), cs, key)
		}}
	}
}

func callKeyed(ctx context.Context, cs *mcp.ClientSession, key string) (*mcp.CallToolResult, error) {
	return cs.CallTool(ctx, &mcp.CallToolParams{Meta: mcp.Meta{mcpdedup.MetaKey: key}, Name: "book", Arguments: args{"guest": key}})
}

// watched signals the calls that a server handles.
type watched struct {
	cancelled, ended chan struct{}
}

func watchCalls(server *mcp.Server) watched {
	w := watched{make(chan struct{}, 1), make(chan struct{}, 1)}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != "tools/call" {
				return next(ctx, method, req)
			}
			stop := context.AfterFunc(ctx, func() { w.cancelled <- struct{}{} })
			defer func() { stop(); w.ended <- struct{}{} }()
			return next(ctx, method, req)
		}
	})
	return w
}
