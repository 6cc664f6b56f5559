package reissue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/tool"
)

// ServerCommand is the name of the hidden command that is a server process.
const ServerCommand = "chaos-mcp-server"

// hello is the line that a server reads. It answers with its URL.
type hello struct {
	URL   string `json:"url"`
	Dedup bool   `json:"dedup"`
	// Cancels has the end of a stream cancel the call, as MCP 2026-07-28 says. The SDK
	// asks for an option to be set.
	Cancels bool `json:"cancels"`
}

const (
	toolName    = "effect"
	serverConns = 6
)

type effectIn struct {
	Name string `json:"name"`
}

// Serve is what a server process does until in ends or it is killed.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := json.NewDecoder(in)
	var h hello
	if err := lines.Decode(&h); err != nil {
		return fmt.Errorf("reading the first line: %w", err)
	}
	c, err := lab.OpenClient(ctx, h.URL, serverConns, pgx.QueryExecModeCacheStatement, &dedup.Options{Retry: lab.Retry(100 * time.Millisecond)})
	if err != nil {
		return err
	}
	defer c.Pool.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "effects", Version: "1"}, nil)
	if err := addEffect(server, c, h.Dedup); err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{ReadHeaderTimeout: time.Minute, Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: h.Cancels})}
	go func() { _ = web.Serve(l) }()
	defer func() { _ = web.Close() }()
	if err := json.NewEncoder(out).Encode(l.Addr().String()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// addEffect adds the tool, which without dedup is the plain one that repeats.
func addEffect(server *mcp.Server, c *lab.Client, withDedup bool) error {
	if !withDedup {
		mcp.AddTool(server, &mcp.Tool{Name: toolName}, func(ctx context.Context, _ *mcp.CallToolRequest, in effectIn) (*mcp.CallToolResult, lab.Answer, error) {
			run, err := lab.RunNaively(ctx, c.Pool, 0, in.Name)
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

// servers are the two processes.
type servers struct {
	hello hello

	mu  sync.Mutex
	all [2]*server
}

// server is one, at an address that it has written.
type server struct {
	*process.Process
	addr string
}

func startServers(ctx context.Context, h hello) (*servers, error) {
	s := &servers{hello: h}
	for i := range s.all {
		var err error
		if s.all[i], err = s.start(ctx, i); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

// start starts server i, one of which leaves calls running whose stream has ended.
func (s *servers) start(ctx context.Context, i int) (*server, error) {
	h := s.hello
	h.Cancels = i == 0
	addr := make(chan string, 1)
	p, err := process.Start(process.Command{Args: []string{ServerCommand}}, h, func(line string) { addr <- line })
	if err != nil {
		return nil, err
	}
	select {
	case at := <-addr:
		return &server{p, at}, nil
	case <-p.Done():
		return nil, errors.New("a server ended before it had an address")
	case <-ctx.Done():
		p.Kill()
		return nil, ctx.Err()
	}
}

// addr is where server i is to be reached now.
func (s *servers) addr(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[i].addr
}

// kill kills server i, whatever it is doing, and starts another in its place.
func (s *servers) kill(ctx context.Context, i int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[i].Kill()
	started, err := s.start(ctx, i)
	if err != nil {
		return err
	}
	s.all[i] = started
	return nil
}

func (s *servers) stop() {
	for _, one := range s.all {
		if one != nil {
			one.Kill()
		}
	}
}
