package reissue

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
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
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return fmt.Errorf("reading the first line: %w", lines.Err())
	}
	var h hello
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
		return fmt.Errorf("reading the first line: %w", err)
	}
	pool, err := lab.OpenPool(ctx, h.URL, serverConns, pgx.QueryExecModeCacheStatement)
	if err != nil {
		return err
	}
	defer pool.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "effects", Version: "1"}, nil)
	if err := addEffect(server, pool, h.Dedup); err != nil {
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
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// addEffect adds the tool, which without dedup is the plain one that repeats.
func addEffect(server *mcp.Server, pool *pgxpool.Pool, withDedup bool) error {
	if !withDedup {
		mcp.AddTool(server, &mcp.Tool{Name: toolName}, func(ctx context.Context, _ *mcp.CallToolRequest, in effectIn) (*mcp.CallToolResult, lab.Answer, error) {
			run, err := lab.RunNaively(ctx, pool, in.Name)
			return nil, lab.Answer{Run: run}, err
		})
		return nil
	}
	d, err := dedup.New(pool, &dedup.Options{Retry: dedup.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: 100 * time.Millisecond}})
	if err != nil {
		return err
	}
	tools := tool.NewRegistry(d, nil)
	err = tools.Add(tool.Tool[effectIn, lab.Answer]{Name: toolName, Class: tool.Write, MaxWait: -1, Run: func(ctx context.Context, tx pgx.Tx, in effectIn) (lab.Answer, error) {
		return lab.RunRow(in.Name)(ctx, tx)
	}})
	if err != nil {
		return err
	}
	return mcpdedup.AddTools(server, tools, &mcpdedup.Options{Scope: mcpdedup.SingleUser("chaos"), OnError: func(context.Context, mcpdedup.Failure) {}})
}
