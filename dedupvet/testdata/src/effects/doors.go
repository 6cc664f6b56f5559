package effects

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/mcpdedup"
)

// A handler behind one of the doors asks for its transaction.

func handle(w http.ResponseWriter, r *http.Request) { // want "effect"
	tx, ok := httpdedup.Tx(r.Context())
	if !ok {
		unguarded()
		return
	}
	_ = tx
	guarded()
}

func guarded() {} // want "helper"

func unguarded() {}

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
