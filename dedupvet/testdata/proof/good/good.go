// Package good does what package bad does, well.
package good

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

// Open opens a ticket, with three tries of one call.
func Open(ctx context.Context, d *dedup.Deduper, invoice string) (id int, err error) {
	key, err := dedup.KeyFromIntent("send", invoice)
	if err != nil {
		return 0, err
	}
	call := dedup.Call{Scope: "acme", Tool: "open_ticket", Key: key}
	for range 3 {
		result, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (id int, err error) {
			err = tx.QueryRow(ctx, `INSERT INTO tickets (title) VALUES ($1) RETURNING id`, invoice).Scan(&id)
			return id, err
		})
		if err == nil {
			return result.Value, tell(ctx, result.Value)
		}
		if !dedup.IsRetryable(err) {
			return 0, err
		}
	}
	return 0, errors.New("try again later")
}

// tell does what is outside of the database when the ticket is committed.
func tell(ctx context.Context, id int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com/tickets", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
