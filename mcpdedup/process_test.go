package mcpdedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/mcpdedup"
)

// asServer makes the test binary be a server of the desk: a client is only
// another program's if the server is a program of its own. It holds settings.
const asServer = "DEDUP_TEST_AS_MCP_SERVER"

type settings struct {
	URL string `json:"url"`
	// HTTP serves streamable HTTP, writes its URL to stdout and ends with stdin.
	// Otherwise the server speaks over stdio.
	HTTP bool `json:"http"`
	// Stateless serves MCP 2026-07-28 as well, and no sessions.
	Stateless bool `json:"stateless"`
	// Cut ends the process in place of writing the answer of a booking.
	Cut bool `json:"cut"`
}

func (s settings) String() string {
	b, _ := json.Marshal(s)
	return string(b)
}

func serveProcess(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, s.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	tools, err := deskTools(pool, nil)
	if err != nil {
		return err
	}
	server := newServer()
	if !s.HTTP {
		if err := mcpdedup.AddTools(server, tools, oneUser()); err != nil {
			return err
		}
		return server.Run(ctx, &mcp.IOTransport{Reader: os.Stdin, Writer: &cutWriter{os.Stdout, s.Cut}})
	}
	if err := mcpdedup.AddTools(server, tools, &mcpdedup.Options{Scope: mcpdedup.TokenUser}); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: bearer(server, &mcp.StreamableHTTPOptions{Stateless: s.Stateless})}
	go web.Serve(l)
	fmt.Fprintf(os.Stdout, "http://%s\n", l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// cutWriter ends the process with the first answer that holds a booking.
type cutWriter struct {
	io.WriteCloser
	cut bool
}

func (w *cutWriter) Write(p []byte) (int, error) {
	if w.cut && bytes.Contains(p, []byte(`"structuredContent"`)) {
		os.Exit(3)
	}
	return w.WriteCloser.Write(p)
}

// bearer serves a server over streamable HTTP to users whose token is their name.
func bearer(server *mcp.Server, opts *mcp.StreamableHTTPOptions) http.Handler {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts)
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: farAway}, nil
	}
	return auth.RequireBearerToken(verify, nil)(handler)
}
