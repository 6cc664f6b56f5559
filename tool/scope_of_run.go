package tool

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// runScope marks the context of a running tool, so that calls inside it are told
// from calls beside it: a call inside would wait for a connection while its tool
// holds one, and be committed whatever becomes of its tool.
type runScope struct{ ended atomic.Bool }

type runScopeKey struct{}

// marked is run with the mark in its context, for as long as it runs.
func marked(run dedup.Effect[json.RawMessage]) dedup.Effect[json.RawMessage] {
	return func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
		ctx, end := enterTool(ctx)
		defer end()
		return run(ctx, tx)
	}
}

// enterTool sets the mark, and end takes it away.
func enterTool(ctx context.Context) (_ context.Context, end func()) {
	scope := &runScope{}
	return context.WithValue(ctx, runScopeKey{}, scope), func() { scope.ended.Store(true) }
}

// insideTool reports whether ctx belongs to a tool that has not returned. There is
// never more than one around it.
func insideTool(ctx context.Context) bool {
	scope, _ := ctx.Value(runScopeKey{}).(*runScope)
	return scope != nil && !scope.ended.Load()
}

// notEnded is err, unless the tool has ended its own transaction. That is not
// prevented, only found out: what was sent after it has taken effect by itself. Of
// one that has begun another transaction since nothing is seen.
func notEnded(tool string, tx pgx.Tx, err error) error {
	pg := tx.Conn().PgConn()
	switch {
	case pg.IsClosed() || pg.TxStatus() != 'I':
		return err
	case err != nil:
		return endedItsOwn(tool, err)
	default:
		return endedItsOwn(tool, nil)
	}
}

func endedItsOwn(tool string, err error) error {
	return &dedup.InvalidError{What: "effect", Reason: "of " + tool + " ended its own transaction, and what it sent after that has taken effect; return nil to commit, an error to roll back", Err: err}
}
