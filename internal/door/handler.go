package door

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
)

// DoHandler is dedup.Do for a handler whose error may only report that one of its statements
// failed. dedup saw that statement's error, and runs the handler again after a deadlock or the
// like. After any other failed statement the handler's own error is the call's, and is recorded if
// it is final.
func DoHandler(ctx context.Context, d *dedup.Deduper, call dedup.Call, handler dedup.Effect[json.RawMessage]) (dedup.Result[json.RawMessage], error) {
	var hidden error // the latest run's, if its transaction was aborted
	result, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
		hidden = nil
		text, err := handler(ctx, tx)
		if pg := guard.ConnOf(tx).PgConn(); err != nil && (pg.IsClosed() || pg.TxStatus() == 'E') {
			// The null is not recorded: an aborted transaction cannot commit.
			hidden, text, err = err, json.RawMessage("null"), nil
		}
		return text, err
	})
	if hidden == nil || !errors.Is(err, guard.ErrTxAborted) || dedup.IsRetryable(err) {
		return result, err
	}
	if d.Refusal(hidden) == nil {
		return result, hidden
	}
	// If a twin was answered in between, its answer is used.
	return dedup.Do(ctx, d, call, func(context.Context, pgx.Tx) (json.RawMessage, error) { return nil, hidden })
}
