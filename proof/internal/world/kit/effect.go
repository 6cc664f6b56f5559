package kit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The audit log has one row for every write tool that ran to its end, in the tool's own
// transaction. Nothing is unique in it, so a call that took effect twice is there twice.

type callRefKey struct{}

// WithCallRef names the call on whose behalf tools run with this context.
func WithCallRef(ctx context.Context, ref string) context.Context {
	return context.WithValue(ctx, callRefKey{}, ref)
}

// Record notes on tx that a tool of a domain changed subject, for the call that ctx names.
// A tool calls it last, after its changes.
func Record(ctx context.Context, tx pgx.Tx, domain, tool, subject string) error {
	ref, _ := ctx.Value(callRefKey{}).(string)
	_, err := tx.Exec(ctx, `
		INSERT INTO effects (domain, tool, subject, call_ref)
		VALUES ($1, $2, $3, $4)`,
		domain, tool, subject, ref)
	if err != nil {
		return fmt.Errorf("recording effect of %s %s: %w", domain, tool, err)
	}
	return nil
}
