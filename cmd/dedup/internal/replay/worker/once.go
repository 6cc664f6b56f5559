package worker

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/world/tool"
)

// idleTimeout frees what a vanished worker holds. The driver keeps a unit back
// for milliseconds; where a machine is so slow that it takes longer, the
// delivery fails and is sent again.
const idleTimeout = 2 * time.Second

func newDeduper(pool *pgxpool.Pool) (*dedup.Deduper, error) {
	return dedup.New(pool, &dedup.Options{IdleTimeout: idleTimeout})
}

// once executes a write with dedup. A business refusal is final: it is recorded
// and answered again like any other result.
func once(ctx context.Context, deduper *dedup.Deduper, run runFunc, d Delivery) (Answer, error) {
	key, err := dedup.KeyFromToolCall(d.Session, d.Turn, d.ToolCallID)
	if err != nil {
		return Answer{}, err
	}
	call := dedup.Call{Scope: d.Scope, Tool: d.Tool, Key: key, Args: d.Args}
	result, err := dedup.Do(ctx, deduper, call, func(ctx context.Context, tx pgx.Tx) (string, error) {
		text, err := run(ctx, tx)
		var refusal *tool.Refusal
		if errors.As(err, &refusal) {
			return "", dedup.Final(refusal)
		}
		return text, err
	})
	var refused *dedup.RefusedError
	if errors.As(err, &refused) {
		answer := (&tool.Refusal{Message: refused.Message}).Answer()
		return Answer{Text: answer, Replayed: refused.Replayed}, nil
	}
	return Answer{Text: result.Value, Replayed: result.Replayed}, err
}
