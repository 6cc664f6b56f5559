// This file is built together with the everything server of the Go SDK's conformance tests. It
// serves that server with or without dedup in front.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// addMiddleware puts dedup in front of all tools, if DEDUP_CONFORMANCE names a database.
func addMiddleware(server *mcp.Server) {
	text := os.Getenv("DEDUP_CONFORMANCE")
	if text == "" {
		return
	}
	var settings struct {
		URL   string
		Keyed bool // clients send keys
	}
	must(json.Unmarshal([]byte(text), &settings))
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, settings.URL)
	must(err)
	d, err := dedup.New(pool, nil)
	must(err)
	class := tool.Idempotent
	if settings.Keyed {
		class = tool.Write
	}
	policies := map[string]mcpdedup.Policy{}
	for _, name := range toolNames(ctx, server) {
		policies[name] = mcpdedup.Policy{Class: class}
	}
	before, err := mcpdedup.Middleware(d, policies, &mcpdedup.Options{Scope: mcpdedup.SingleUser("suite"), KeysInMeta: settings.Keyed})
	must(err)
	if settings.Keyed {
		server.AddReceivingMiddleware(reissue, before, writeEffect)
	} else {
		server.AddReceivingMiddleware(before, writeEffect)
	}
}

// reissue gives every tool call a key, as clients do that send keys, and repeats each call that has
// a result. If the repeat has another answer the server exits, and the suite's results then differ
// from those without dedup.
func reissue(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, ok := req.(*mcp.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		params := *call.Params
		params.Meta = maps.Clone(params.Meta)
		if params.Meta == nil {
			params.Meta = mcp.Meta{}
		}
		params.Meta[mcpdedup.MetaKey] = dedup.NewKey()
		keyed := &mcp.CallToolRequest{Session: call.Session, Params: &params, Extra: call.Extra}
		first, err := next(ctx, method, keyed)
		if res, ok := first.(*mcp.CallToolResult); err == nil && ok && !res.IsError && !res.NeedsInput() {
			again, err := next(context.WithoutCancel(ctx), method, keyed)
			must(err)
			if got, want := told(again, true), told(first, false); got != want {
				log.Fatalf("%s is answered with %s at first, and with %s again", params.Name, want, got)
			}
		}
		return first, err
	}
}

// told returns the text of an answer without its mark as a duplicate, which must be as given.
func told(result mcp.Result, duplicate bool) string {
	res := *result.(*mcp.CallToolResult)
	if res.Meta["duplicate"] != duplicate {
		log.Fatalf("duplicate is %v, not %v", res.Meta["duplicate"], duplicate)
	}
	res.Meta = maps.Clone(res.Meta)
	delete(res.Meta, "duplicate")
	text, err := json.Marshal(&res)
	must(err)
	return string(text)
}

// writeEffect gives every tool call an effect in its transaction.
func writeEffect(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if tx, ok := mcpdedup.Tx(ctx); ok && method == "tools/call" {
			if _, err := tx.Exec(ctx, `INSERT INTO effects (what) VALUES ($1)`, req.(*mcp.CallToolRequest).Params.Name); err != nil {
				return nil, err
			}
		}
		return next(ctx, method, req)
	}
}

func toolNames(ctx context.Context, server *mcp.Server) (names []string) {
	there, here := mcp.NewInMemoryTransports()
	_, err := server.Connect(ctx, there, nil)
	must(err)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "names"}, nil).Connect(ctx, here, nil)
	must(err)
	defer client.Close()
	for t, err := range client.Tools(ctx, nil) {
		must(err)
		names = append(names, t.Name)
	}
	return names
}

// serve listens on a free port, writes its URL to stdout, and exits when stdin ends.
func serve(handler http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	fmt.Printf("http://%s\n", l.Addr())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	return http.Serve(l, handler)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
