package mcpdedup_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

type TicketIn struct {
	Title string `json:"title"`
	Note  string `json:"note,omitempty" dedup:"ignore"`
}

type Ticket struct {
	ID int64 `json:"id"`
}

func createTicket(ctx context.Context, tx pgx.Tx, in TicketIn) (out Ticket, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO tickets (account, title) VALUES ($1, $2) RETURNING id`,
		tool.InvocationOf(ctx).Scope, in.Title).Scan(&out.ID)
	return out, err
}

// newHandler returns one handler for MCP and HTTP. verify returns the user of a bearer token.
func newHandler(pool *pgxpool.Pool, verify auth.TokenVerifier) (http.Handler, error) {
	d, err := dedup.New(pool, nil)
	if err != nil {
		return nil, err
	}
	tools := tool.NewRegistry(d, nil)
	err = tools.Add(tool.Tool[TicketIn, Ticket]{
		Name: "create_ticket", Description: "Open a ticket.", Class: tool.Write, Run: createTicket,
	})
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1.0.0"}, nil)
	if err := mcpdedup.AddTools(server, tools, &mcpdedup.Options{Scope: mcpdedup.TokenUser}); err != nil {
		return nil, err
	}
	middleware, err := httpdedup.New(d, httpdedup.Options{
		Tools: tools,
		Scope: tokenUser,
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	mux.Handle("POST /tickets", middleware.Tool("create_ticket"))
	mux.Handle("GET /operations/{tool}/{key}", middleware.Operations())
	return auth.RequireBearerToken(verify, nil)(mux), nil
}

func tokenUser(r *http.Request) (string, error) {
	if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		return info.UserID, nil // an empty one is refused
	}
	return "", errors.New("the request is not authenticated")
}

// TestTwoDoors runs the handler of docs/guide.md: a call over HTTP and the same call over MCP are
// one, with a key and with a turn.
func TestTwoDoors(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/guide.md")
	require.NoError(t, err)
	code, err := os.ReadFile("two_doors_test.go")
	require.NoError(t, err)
	_, shown, found := strings.Cut(string(document), "\ntype TicketIn struct {\n\tTitle string `json:\"title\"`\n")
	require.True(t, found)
	shown, _, _ = strings.Cut(shown, "\nfunc main() {")
	require.Contains(t, string(code), shown, "the document has other code")

	pool := pgtest.New(t).Pool(t)
	_, err = pool.Exec(t.Context(), `CREATE TABLE tickets (id bigint GENERATED ALWAYS AS IDENTITY, account text, title text)`)
	require.NoError(t, err)
	handler, err := newHandler(pool, func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client := connectHTTP(t, server.URL+"/mcp", "alice", withoutSession)
	for name, c := range map[string]struct {
		header http.Header
		meta   mcp.Meta
	}{
		"Key":  {http.Header{"Idempotency-Key": {"k"}}, mcp.Meta{mcpdedup.MetaKey: "k"}},
		"Turn": {http.Header{"Agent-Turn": {`"s"; turn=4`}}, turnMeta("s", 4)},
	} {
		for _, title := range []string{`"a"`, `"a"`} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/tickets", strings.NewReader(`{"note":"`+name+`","title":`+title+`}`))
			require.NoError(t, err)
			r.Header = c.header.Clone()
			r.Header.Set("Authorization", "Bearer alice")
			res, err := server.Client().Do(r)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusOK, res.StatusCode, name)
			called, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "create_ticket", Arguments: args{"title": "a"}, Meta: c.meta})
			require.NoError(t, err)
			require.Equal(t, true, called.Meta["duplicate"], "%s: %v", name, called.Content)
		}
	}
	var tickets, alices int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE account = 'alice') FROM tickets`).Scan(&tickets, &alices))
	require.Equal(t, 2, tickets)
	require.Equal(t, 2, alices)
}
