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

// inTool runs f with the mark in its context, for as long as it runs.
func inTool(ctx context.Context, f func(ctx context.Context) error) error {
	scope := &runScope{}
	defer scope.ended.Store(true)
	return f(context.WithValue(ctx, runScopeKey{}, scope))
}

// marked is run with the mark in its context.
func marked(run dedup.Effect[json.RawMessage]) dedup.Effect[json.RawMessage] {
	return func(ctx context.Context, tx pgx.Tx) (text json.RawMessage, err error) {
		err = inTool(ctx, func(ctx context.Context) (err error) {
			text, err = run(ctx, tx)
			return err
		})
		return text, err
	}
}

// insideTool reports whether ctx belongs to a tool that has not returned. There is
// never more than one around it.
func insideTool(ctx context.Context) bool {
	scope, _ := ctx.Value(runScopeKey{}).(*runScope)
	return scope != nil && !scope.ended.Load()
}
