package mcpdedup_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

type NoteIn struct {
	Text string `json:"text" jsonschema:"what to remember"`
}

type Note struct {
	ID int64 `json:"id"`
}

func addNote(ctx context.Context, tx pgx.Tx, in NoteIn) (n Note, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO notes (text) VALUES ($1) RETURNING id`, in.Text).Scan(&n.ID)
	return n, err
}

func serveNotes(ctx context.Context, pool *pgxpool.Pool, transport mcp.Transport) error {
	d, err := dedup.New(pool, nil)
	if err != nil {
		return err
	}
	tools := tool.NewRegistry(d, nil)
	err = tools.Add(tool.Tool[NoteIn, Note]{Name: "add_note", Description: "Write a note.", Class: tool.Write, Run: addNote})
	if err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	opts := &mcpdedup.Options{Scope: mcpdedup.SingleUser("me")} // over HTTP: mcpdedup.TokenUser
	if err := mcpdedup.AddTools(server, tools, opts); err != nil {
		return err
	}
	return server.Run(ctx, transport)
}

// A write tool is added to an MCP server. The model's retry with the same idempotencyKey gets the
// first call's answer.
func ExampleAddTools() {
	pool, drop := notesDatabase()
	defer drop()
	there, here := mcp.NewInMemoryTransports() // or &mcp.StdioTransport{}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- serveNotes(ctx, pool, there) }()

	client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(ctx, here, nil)
	must(err)
	for range 2 {
		res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "add_note", Arguments: map[string]any{
			"text": "call the guest back", "idempotencyKey": "6f1c",
		}})
		must(err)
		fmt.Println(res.Content[0].(*mcp.TextContent).Text, "duplicate:", res.Meta["duplicate"])
	}
	must(client.Close())
	stop()
	<-ended
	// Output:
	// {"id":1} duplicate: false
	// {"id":1} duplicate: true
}

// An existing server keeps its handlers. They write through the transaction that the middleware
// opens.
func ExampleMiddleware() {
	pool, drop := notesDatabase()
	defer drop()
	d, err := dedup.New(pool, nil)
	must(err)
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "add_note"}, func(ctx context.Context, _ *mcp.CallToolRequest, in NoteIn) (*mcp.CallToolResult, Note, error) {
		tx, _ := mcpdedup.Tx(ctx)
		n, err := addNote(ctx, tx, in)
		return nil, n, err
	})
	middleware, err := mcpdedup.Middleware(d, map[string]mcpdedup.Policy{"add_note": {Class: tool.Write}},
		&mcpdedup.Options{Scope: mcpdedup.SingleUser("me")})
	must(err)
	server.AddReceivingMiddleware(middleware)

	ctx, client, stop := exampleClient(server)
	for range 2 {
		res, err := client.CallTool(ctx, &mcp.CallToolParams{
			Meta: mcp.Meta{mcpdedup.MetaKey: "6f1c"}, Name: "add_note", Arguments: NoteIn{Text: "call the guest back"},
		})
		must(err)
		fmt.Println(res.Content[0].(*mcp.TextContent).Text, "duplicate:", res.Meta["duplicate"])
	}
	stop()
	// Output:
	// {"id":1} duplicate: false
	// {"id":1} duplicate: true
}

// A protocol above MCP has the key among the tool's own arguments.
func ExamplePolicy() {
	pool, drop := notesDatabase()
	defer drop()
	d, err := dedup.New(pool, nil)
	must(err)
	type in struct {
		NoteIn
		IdempotencyKey string `json:"idempotency_key"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "add_note"}, func(ctx context.Context, _ *mcp.CallToolRequest, in in) (*mcp.CallToolResult, Note, error) {
		tx, _ := mcpdedup.Tx(ctx)
		n, err := addNote(ctx, tx, in.NoteIn)
		return nil, n, err
	})
	middleware, err := mcpdedup.Middleware(d, map[string]mcpdedup.Policy{
		"add_note": {Class: tool.Write, KeyArgument: "idempotency_key"},
	}, &mcpdedup.Options{Scope: mcpdedup.SingleUser("me")})
	must(err)
	server.AddReceivingMiddleware(middleware)

	ctx, client, stop := exampleClient(server)
	for range 2 {
		res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "add_note", Arguments: map[string]any{
			"text": "call the guest back", "idempotency_key": "6f1c0d2e8a9b4c57",
		}})
		must(err)
		content := res.StructuredContent.(map[string]any)
		fmt.Println("id:", content["id"], "duplicate:", res.Meta["duplicate"])
	}
	stop()
	// Output:
	// id: 1 duplicate: false
	// id: 1 duplicate: true
}

// exampleClient connects a client to a server. stop ends both.
func exampleClient(server *mcp.Server) (ctx context.Context, client *mcp.ClientSession, stop func()) {
	there, here := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Run(ctx, there) }()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(ctx, here, nil)
	must(err)
	return ctx, client, func() {
		must(client.Close())
		cancel()
		<-ended
	}
}

func notesDatabase() (pool *pgxpool.Pool, drop func()) {
	return pgtest.Example(`CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY, text text)`)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
