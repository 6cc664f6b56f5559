package droppederror

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// The answers of package external are errors too.
func pays(ctx context.Context, x *external.Tools, h *external.Handle[string, int], tx pgx.Tx, call dedup.Call, op external.Operation) error {
	h.Do(ctx, call, "7")                         // want `the error of Do is dropped: it says that the call was refused, is parked`
	result, _ := h.Do(ctx, call, "7")            // want `is dropped`
	_, _ = h.Accept(ctx, tx, call, "7")          // want `is dropped`
	_, _ = x.Do(ctx, call, nil)                  // want `the error of Do is dropped`
	x.Resolve(ctx, op, external.Never("looked")) // want `the error of Resolve is dropped`
	_ = external.Saga(ctx)                       // want `the error of Saga is dropped`
	go h.Do(ctx, call, "7")                      // want `is dropped`
	_ = result

	go func() { _ = x.Recover(ctx) }() // which returns none of a call
	if _, err := h.Do(ctx, call, "7"); err != nil {
		return err
	}
	return external.Saga(ctx, external.Step{Do: func(ctx context.Context) error {
		_, err := h.Do(ctx, call, "7")
		return err
	}})
}

// In an effect it is a statement of the transaction as well, and reported once.
func accepts(ctx context.Context, d *dedup.Deduper, h *external.Handle[string, int], call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		h.Accept(ctx, tx, call, "7") // want `the error of Accept is dropped in an effect`
		return 1, nil
	})
}

var begins = external.Tool[string, int]{Begin: func(ctx context.Context, tx pgx.Tx, in string) error {
	tx.Exec(ctx, "INSERT") // want `the error of Exec is dropped in an effect`
	return nil
}}
