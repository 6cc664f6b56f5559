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

// A value that is drawn before the first try, for a request that no other code repeats.
func outsideOfAttempts(req *http.Request) {
	req.Header.Set("Idempotency-Key", uuid.NewString())
}
