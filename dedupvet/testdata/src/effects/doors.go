package effects

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/connectdedup"
	"github.com/tooldedup/dedup/grpcdedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/riverdedup"
)

// A handler behind one of the doors asks for its transaction.

func handle(w http.ResponseWriter, r *http.Request) { // want "effect"
	tx, ok := httpdedup.Tx(r.Context())
	if !ok {
		withoutTheDoor()
		return
	}
	_ = tx
	behindTheDoor()
}

func behindTheDoor() {} // want "helper"

func withoutTheDoor() {}

func register(mux *http.ServeMux) {
	mux.HandleFunc("/book", func(w http.ResponseWriter, r *http.Request) { // want "effect"
		tx, _ := httpdedup.Tx(r.Context())
		_ = tx
	})
}

func callTool(ctx context.Context) error { // want "effect"
	_, err := ofTheDoor(ctx).Exec(ctx, "INSERT")
	return err
}

func ofTheDoor(ctx context.Context) pgx.Tx { // want "effect"
	tx, _ := mcpdedup.Tx(ctx)
	return tx
}

func overGRPC(ctx context.Context, in *string) (*string, error) { // want "effect"
	tx, ok := grpcdedup.Tx(ctx)
	if !ok {
		withoutTheDoor()
		return in, nil
	}
	_, err := tx.Exec(ctx, "INSERT")
	return in, err
}

func overConnect(ctx context.Context, in *connect.Request[string]) (*connect.Response[string], error) { // want "effect"
	tx, ok := connectdedup.Tx(ctx)
	if !ok {
		withoutTheDoor()
		return nil, nil
	}
	_, err := tx.Exec(ctx, "INSERT")
	return nil, err
}

// A job's effect is handed its transaction.
func work(ctx context.Context, d *dedup.Deduper, job string) error {
	return riverdedup.Do(ctx, d, "acme", job, func(ctx context.Context, tx pgx.Tx) error { // want "effect"
		_, err := tx.Exec(ctx, "INSERT")
		return err
	})
}
