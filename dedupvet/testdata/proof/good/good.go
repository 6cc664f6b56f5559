// Package good does the same as package bad, without its mistakes.
package good

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
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

// Probe measures the database; its writes may be repeated.
func Probe(ctx context.Context, d *dedup.Deduper, call dedup.Call) error {
	//dedupvet:ignore every probe is a call of its own
	call.Key = rand.Text()
	_, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		time.Sleep(time.Millisecond) //dedupvet:ignore the pause is what is probed
		return 1, nil
	})
	return err
}

// Refund makes an effect outside the database with the key that all its attempts have.
var Refund = external.Tool[string, int]{
	Name: "refund",
	Perform: func(ctx context.Context, a external.Attempt, order string) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com/refunds/"+order, nil)
		if err != nil {
			return 0, external.NotDone(err)
		}
		req.Header.Set("Idempotency-Key", a.Key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	},
	Finish: func(ctx context.Context, tx pgx.Tx, order string, _ int) error {
		_, err := tx.Exec(ctx, `UPDATE orders SET refunded = true WHERE id = $1`, order)
		return err
	},
}

// tell does the work outside the database after the ticket is committed.
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
