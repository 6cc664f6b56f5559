package guard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Owner is the call that an effect belongs to.
type Owner struct {
	Pool                     *pgxpool.Pool
	Schema, Scope, Tool, Key string
}

// Effect is a running effect: the context that it is given, which sets calls inside it
// apart from calls beside it, and the transaction that it is handed. A Do inside it would wait
// for connections and twins that wait for the effect, and no deadlock detector sees that
// (measured: opposite nesting hung 10 of 10).
//
// It is one allocation with its transaction.
type Effect struct {
	context.Context
	scope scope
	tx    guardedTx
}

// scope is an effect as the contexts below it see it.
type scope struct {
	owner Owner
	outer *scope
	ended atomic.Bool
}

type scopeKey struct{}

// Value implements context.Context.
func (e *Effect) Value(key any) any {
	if key == (scopeKey{}) {
		return &e.scope
	}
	return e.Context.Value(key)
}

// Enter begins an effect of owner's on tx. It must be left.
func Enter(ctx context.Context, owner Owner, tx pgx.Tx) *Effect {
	outer, _ := ctx.Value(scopeKey{}).(*scope)
	e := &Effect{Context: ctx, scope: scope{owner: owner, outer: outer}}
	e.tx.tx, e.tx.root, e.tx.depth = tx, &e.tx, Depth(tx)+1
	return e
}

// Tx is the transaction for the effect.
func (e *Effect) Tx() pgx.Tx { return &e.tx }

// Leave ends the effect: its transaction and its context serve no longer.
func (e *Effect) Leave() {
	e.tx.closed.Store(true)
	e.scope.ended.Store(true)
}

// Verdict is what became of an effect that returned err, by the state in which it left the
// transaction that started then: err, or why nothing of it may be committed. Once it is
// ErrTxEnded nothing else counts.
func (e *Effect) Verdict(ctx context.Context, started time.Time, err error) error {
	return e.tx.verdict(ctx, started, err)
}

// EndedTx reports whether an effect that panicked had ended its transaction.
func (e *Effect) EndedTx(ctx context.Context, started time.Time) bool {
	return e.tx.verdict(ctx, started, errPanicked) == ErrTxEnded
}

// Depth is how many effects tx is inside of.
func Depth(tx pgx.Tx) int {
	if guarded, ok := tx.(*guardedTx); ok {
		return guarded.root.depth
	}
	return 0
}

// Inside reports whether ctx belongs to an effect that has not returned.
func Inside(ctx context.Context) bool {
	inner, _ := ctx.Value(scopeKey{}).(*scope)
	for ; inner != nil; inner = inner.outer {
		if !inner.ended.Load() {
			return true
		}
	}
	return false
}

// InsideOwn reports whether ctx belongs to an effect of this owner that has not returned.
func InsideOwn(ctx context.Context, owner Owner) bool {
	inner, _ := ctx.Value(scopeKey{}).(*scope)
	for ; inner != nil; inner = inner.outer {
		if inner.owner == owner && !inner.ended.Load() {
			return true
		}
	}
	return false
}
