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
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/tool"
)

const (
	workerName  = "chaos-mcp-server"
	toolName    = "effect"
	serverConns = 6
)

// task is that of a server.
type task struct {
	URL   string
	Dedup bool
	// Cancels has the end of a stream cancel the call, as MCP 2026-07-28 says. The SDK
	// asks for an option to be set.
	Cancels bool
}

type effectIn struct {
	Name string `json:"name"`
}

// WorkerCommand returns the hidden command that is a server process.
func WorkerCommand() *cobra.Command {
	return lab.WorkerCommand(workerName, func(ctx context.Context, t task) (http.Handler, func() error, error) {
		c, err := lab.OpenClient(ctx, t.URL, serverConns, pgx.QueryExecModeCacheStatement, &dedup.Options{Retry: lab.Retry(100 * time.Millisecond)})
		if err != nil {
			return nil, nil, err
		}
		server := mcp.NewServer(&mcp.Implementation{Name: "effects", Version: "1"}, nil)
		web := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: t.Cancels})
		return web, c.Close, addEffect(server, c, t.Dedup)
	})
}

// addEffect adds the tool, which without dedup is the plain one that repeats.
func addEffect(server *mcp.Server, c *lab.Client, withDedup bool) error {
	if !withDedup {
		mcp.AddTool(server, &mcp.Tool{Name: toolName}, func(ctx context.Context, _ *mcp.CallToolRequest, in effectIn) (*mcp.CallToolResult, lab.Answer, error) {
			run, err := lab.Plain.Call(ctx, c, in.Name)
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

// servers are the two processes, and the balancer before them. A process that was killed is started anew when it
// is asked for.
type servers struct {
	all [2]*lab.Worker

	mu  sync.Mutex
	rng *rand.Rand
}

// newServers makes both, one of which leaves calls running whose stream has ended.
func newServers(t task, seed uint64) *servers {
	s := &servers{rng: rand.New(rand.NewPCG(seed, 3))}
	for i := range s.all {
		t.Cancels = i == 0
		s.all[i] = &lab.Worker{Command: process.Command{Args: []string{workerName}}, Task: t}
	}
	return s
}

// kill kills one, whatever it is doing, and reports false where it does not run.
func (s *servers) kill() bool { return s.all[s.draw(len(s.all))].Kill() }

func (s *servers) stop() {
	for _, one := range s.all {
		_ = one.Close(0) // it is killed
	}
}

// draw returns a number below n.
func (s *servers) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// faultOdds are out of 20.
var faultOdds = []lab.HTTPFault{
	lab.CutBefore, lab.CutBehind, lab.CutBehind, lab.CutAnswer, lab.CutAnswer, lab.CutHalf, lab.BadGateway, lab.SentTwice, lab.SentTwice,
}

// balance starts a proxy before both that draws which of them to ask, and what goes wrong.
func (s *servers) balance(applied func(fault string)) *lab.HTTPProxy {
	p := &lab.HTTPProxy{To: s.order, Next: func() *lab.HTTPMishap {
		n := s.draw(20)
		if n >= len(faultOdds) {
			return nil
		}
		return &lab.HTTPMishap{
			Fault: faultOdds[n], After: time.Duration(s.draw(int(longestCall))),
			Applied: func() { applied(string(faultOdds[n])) },
		}
	}}
	p.Start()
	return p
}

// order is the addresses of both, in the order in which they are asked.
func (s *servers) order(ctx context.Context) (to []string, err error) {
	first := s.draw(len(s.all))
	for i := range s.all {
		present, err := s.all[(first+i)%len(s.all)].Present()
		if err != nil {
			return nil, err
		}
		addr, err := present.Addr(ctx)
		if err != nil {
			return nil, err
		}
		to = append(to, addr)
	}
	return to, nil
}
