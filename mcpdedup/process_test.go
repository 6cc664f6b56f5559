package mcpdedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/mcpdedup"
)

// asServer makes the test binary a server of the desk over stdio. It holds settings.
const asServer = "DEDUP_TEST_AS_MCP_SERVER"

type settings struct {
	URL string `json:"url"`
	// Cut ends the process instead of writing the answer of a booking.
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
	if err := mcpdedup.AddTools(server, tools, oneUser()); err != nil {
		return err
	}
	return server.Run(ctx, &mcp.IOTransport{Reader: os.Stdin, Writer: &cutWriter{os.Stdout, s.Cut}})
}

// cutWriter ends the process at the first answer with a booking.
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

// bearer serves a server over streamable HTTP. A user's token is the user's name.
func bearer(server *mcp.Server, opts *mcp.StreamableHTTPOptions) http.Handler {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts)
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: farAway}, nil
	}
	return auth.RequireBearerToken(verify, nil)(handler)
}
