package reissue

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/tool"
)

const serverName = "chaos-mcp-server"

// task is a server's task.
type task struct {
	URL   string `json:"url"`
	Dedup bool   `json:"dedup"`
	// Cancels makes the end of a stream cancel the call, as MCP 2026-07-28 demands. In the SDK that
	// is an option.
	Cancels bool `json:"cancels"`
}

const (
	toolName    = "effect"
	serverConns = 6
)

type effectIn struct {
	Name string `json:"name"`
}

// Worker returns the hidden command of a server process.
func Worker() *cobra.Command { return lab.WorkerCommand(serverName, open) }

func open(ctx context.Context, t task) (http.Handler, func() error, error) {
	c, err := lab.OpenClient(ctx, t.URL, serverConns, pgx.QueryExecModeCacheStatement, &dedup.Options{Retry: lab.Retry(100 * time.Millisecond)})
	if err != nil {
		return nil, nil, err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "effects", Version: "1"}, nil)
	web := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: t.Cancels})
	return web, c.Close, addEffect(server, c, t.Dedup)
}

// addEffect adds the tool. Without dedup it is the plain tool, which repeats.
func addEffect(server *mcp.Server, c *lab.Client, withDedup bool) error {
	if !withDedup {
		mcp.AddTool(server, &mcp.Tool{Name: toolName}, func(ctx context.Context, _ *mcp.CallToolRequest, in effectIn) (*mcp.CallToolResult, lab.Answer, error) {
			run, err := lab.Naively(ctx, c, in.Name)
			return nil, lab.Answer{Run: run}, err
		})
		return nil
	}
	tools := tool.NewRegistry(c.D, nil)
	err := tools.Add(tool.Tool[effectIn, lab.Answer]{Name: toolName, Class: tool.Write, MaxWait: -1, Run: func(ctx context.Context, tx pgx.Tx, in effectIn) (lab.Answer, error) {
		return lab.Run(in.Name)(ctx, tx)
	}})
	if err != nil {
		return err
	}
	return mcpdedup.AddTools(server, tools, &mcpdedup.Options{Scope: mcpdedup.SingleUser("chaos"), OnError: func(context.Context, mcpdedup.Failure) {}})
}

// servers are the two processes and their balancer.
type servers struct {
	all [2]lab.Seat

	mu  sync.Mutex
	rng *rand.Rand
}

// newServers returns servers that start on demand. One of them does not cancel a call when its
// stream ends.
func newServers(t task, seed uint64) *servers {
	s := &servers{rng: rand.New(rand.NewPCG(seed, 3))}
	for i := range s.all {
		t.Cancels = i == 0
		s.all[i].Command.Args, s.all[i].Task = []string{serverName}, t
	}
	return s
}

// draw draws a server.
func (s *servers) draw() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(len(s.all))
}

// kill kills a running server at any moment. Another process takes its place.
func (s *servers) kill() bool { return s.all[s.draw()].Kill() }

func (s *servers) stop() {
	for i := range s.all {
		s.all[i].Kill()
	}
}

// faultOdds are the odds of each fault, out of 20.
var faultOdds = []lab.HTTPFault{
	lab.CutBefore, lab.CutBehind, lab.CutBehind, lab.CutAnswer, lab.CutAnswer, lab.CutHalf, lab.BadGateway, lab.SentTwice, lab.SentTwice,
}

// balance starts a proxy in front of both servers. It draws the server and the fault of each
// request.
func (s *servers) balance(applied func(fault string)) *lab.HTTPProxy {
	p := &lab.HTTPProxy{To: s.order, Next: func() *lab.HTTPMishap {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := s.rng.IntN(20)
		if n >= len(faultOdds) {
			return nil
		}
		return &lab.HTTPMishap{
			Fault: faultOdds[n], After: time.Duration(s.rng.Int64N(int64(longestCall))),
			Applied: func() { applied(string(faultOdds[n])) },
		}
	}}
	p.Start()
	return p
}

// order returns the addresses of both servers. The first is asked first.
func (s *servers) order(ctx context.Context) (to []string, err error) {
	first := s.draw()
	for i := range s.all {
		addr, err := s.all[(first+i)%len(s.all)].Addr(ctx)
		if err != nil {
			return nil, err
		}
		to = append(to, addr)
	}
	return to, nil
}
