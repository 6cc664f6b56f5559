package keysource

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

func calls(ctx context.Context, h *external.Handle[string, int], tx pgx.Tx, order string) {
	h.Do(ctx, dedup.Call{Key: uuid.NewString()}, order)                    // want `Call.Key comes from uuid.NewString`
	h.Accept(ctx, tx, dedup.Call{Key: order + time.Now().String()}, order) // want `Call.Key comes from time.Now`
	h.Do(ctx, dedup.Call{Key: order}, order)
}

// The key of an attempt is the call's.
var pays = external.Tool[string, int]{
	Perform: func(ctx context.Context, a external.Attempt, in string) (int, error) {
		req, err := http.NewRequestWithContext(ctx, "POST", "https://example.com", nil)
		if err != nil {
			return 0, err
		}
		req.Header.Set("Idempotency-Key", a.Key)
		req.Header.Set("Idempotency-Key", uuid.NewString())              // want `Idempotency-Key comes from uuid.NewString in an attempt, so that every attempt of the call takes effect; send the Key of the external.Attempt`
		req.Header.Set("Idempotency-Key", dedup.NewKey())                // want `Idempotency-Key comes from dedup.NewKey in an attempt`
		req.Header.Set("Idempotency-Key", in+time.Now().Format("01-02")) // want `Idempotency-Key comes from time.Now in an attempt`
		req.Header.Set("X-Request-Id", uuid.NewString())
		_, err = (&client{}).send(req)
		return 1, err
	},
	Find: func(ctx context.Context, a external.Attempt, in string) ([]int, error) { return nil, nil },
}

type client struct{}

func (c *client) send(req *http.Request) (*http.Response, error) {
	req.Header.Set("idempotency-key", uuid.NewString()) // want `comes from uuid.NewString in an attempt`
	return http.DefaultClient.Do(req)
}

// One that is drawn before the first try of a request that nobody else makes again.
func outsideOfAttempts(req *http.Request) {
	req.Header.Set("Idempotency-Key", uuid.NewString())
}
