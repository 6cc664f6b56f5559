package dedup

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

// effectScope marks the context of a running effect, so that calls inside it
// are told from calls beside it: a Do would wait for connections and twins that
// wait for the effect, and no deadlock detector sees that (measured: opposite
// nesting hung 10 of 10).
type effectScope struct {
	pool   *pgxpool.Pool
	schema string
	id     identity
	outer  *effectScope
	ended  atomic.Bool
}

type effectScopeKey struct{}

// effectContext is the context of an effect: its caller's, and the scope. The
// guard stands in it to be one allocation with it.
type effectContext struct {
	context.Context
	scope effectScope
	guard effectTx
}

func (c *effectContext) Value(key any) any {
	if key == (effectScopeKey{}) {
		return &c.scope
	}
	return c.Context.Value(key)
}

// enterEffect returns the context for an effect of id.
func (d *Deduper) enterEffect(ctx context.Context, id identity) *effectContext {
	outer, _ := ctx.Value(effectScopeKey{}).(*effectScope)
	return &effectContext{Context: ctx, scope: effectScope{pool: d.pool, schema: d.opts.Schema, id: id, outer: outer}}
}

// insideEffect tells whether ctx belongs to an effect that has not returned.
func insideEffect(ctx context.Context) bool {
	scope, _ := ctx.Value(effectScopeKey{}).(*effectScope)
	for ; scope != nil; scope = scope.outer {
		if !scope.ended.Load() {
			return true
		}
	}
	return false
}

// reentered tells whether ctx belongs to an effect of this very identity.
func (d *Deduper) reentered(ctx context.Context, id identity) bool {
	scope, _ := ctx.Value(effectScopeKey{}).(*effectScope)
	for ; scope != nil; scope = scope.outer {
		if scope.id == id && scope.pool == d.pool && scope.schema == d.opts.Schema && !scope.ended.Load() {
			return true
		}
	}
	return false
}
