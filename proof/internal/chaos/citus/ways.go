package citus

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// client is one process: a pool on one node, with a Deduper for each schema.
type client struct {
	pool     *pgxpool.Pool
	dedupers []*dedup.Deduper
}

// key is one intent of a tenant.
type key struct {
	tenant int
	text   string
}

// delivery is one call, or several that are made at once.
type delivery struct {
	way  int
	name string // of the way
	keys []key
	by   *client
}

// ways are the four ways to call.
var ways = []struct {
	name string
	many bool
	call func(context.Context, *arm, *delivery) error
}{
	{"Do", false, viaDo}, {"DoTx", false, viaTx}, {"DoStatement", false, viaStatement}, {"DoBatch", true, viaBatch},
}

func (a *arm) deduper(d *delivery) *dedup.Deduper {
	return d.by.dedupers[d.keys[0].tenant%len(d.by.dedupers)]
}

func (a *arm) callOf(k key) dedup.Call {
	return dedup.Call{Scope: tenant(k.tenant), Tool: "effect", Key: k.text, Args: k.text}
}

// effectSQL is every effect: its answer is the number of the run that was committed.
func (a *arm) effectSQL(k key) (string, []any) {
	schema := "public"
	if a.bySchema {
		schema = tenant(k.tenant)
	}
	return `INSERT INTO ` + schema + `.effects (tenant, key, run) VALUES ($1, $2, $3) RETURNING run`, []any{tenant(k.tenant), k.text, a.runs.Add(1)}
}

type ran struct {
	Run int64 `json:"run"`
}

func (a *arm) effect(k key) dedup.Effect[ran] {
	return func(ctx context.Context, tx pgx.Tx) (r ran, err error) {
		sql, args := a.effectSQL(k)
		err = tx.QueryRow(ctx, sql, args...).Scan(&r.Run)
		return r, err
	}
}

func (a *arm) answered(d *delivery, k key, run int64) {
	a.ledger(k).Answered(k.text, run)
	if n := a.ways[d.name]; n != nil {
		n.Add(1)
	}
}

func viaDo(ctx context.Context, a *arm, d *delivery) error {
	result, err := dedup.Do(ctx, a.deduper(d), a.callOf(d.keys[0]), a.effect(d.keys[0]))
	if err == nil {
		a.answered(d, d.keys[0], result.Value.Run)
	}
	return err
}

func viaTx(ctx context.Context, a *arm, d *delivery) error {
	var run int64
	err := pgx.BeginFunc(ctx, d.by.pool, func(tx pgx.Tx) error {
		result, err := dedup.DoTx(ctx, a.deduper(d), tx, a.callOf(d.keys[0]), a.effect(d.keys[0]))
		run = result.Value.Run
		return err
	})
	if err == nil {
		a.answered(d, d.keys[0], run)
	}
	return err
}

func (a *arm) statements(d *delivery) []dedup.StatementCall {
	var calls []dedup.StatementCall
	for _, k := range d.keys {
		sql, args := a.effectSQL(k)
		calls = append(calls, dedup.StatementCall{Call: a.callOf(k), Statement: dedup.SQL(sql, args...)})
	}
	return calls
}

func viaStatement(ctx context.Context, a *arm, d *delivery) error {
	one := a.statements(d)[0]
	result, err := dedup.DoStatement[ran](ctx, a.deduper(d), one.Call, one.Statement)
	if err == nil {
		a.answered(d, d.keys[0], result.Value.Run)
	}
	return err
}

func viaBatch(ctx context.Context, a *arm, d *delivery) (errs error) {
	calls := a.statements(d)
	for out := range dedup.DoBatch[ran](ctx, a.deduper(d), func(yield func(dedup.StatementCall) bool) {
		for _, call := range calls {
			if !yield(call) {
				return
			}
		}
	}, nil) {
		if out.Err != nil {
			errs = errors.Join(errs, out.Err)
			continue
		}
		a.answered(d, d.keys[out.Index], out.Result.Value.Run)
	}
	return errs
}

// naively is a transaction that is repeated after any error.
func (a *arm) naively(ctx context.Context, d *delivery) error {
	ctx, cancel := context.WithTimeout(ctx, 20*answerWait)
	defer cancel()
	runs := make([]int64, len(d.keys))
	err := pgx.BeginFunc(ctx, d.by.pool, func(tx pgx.Tx) error {
		for i, k := range d.keys {
			r, err := a.effect(k)(ctx, tx)
			if err != nil {
				return err
			}
			runs[i] = r.Run
		}
		return nil
	})
	for i, k := range d.keys {
		if err == nil {
			a.ledger(k).Answered(k.text, runs[i])
		}
	}
	return err
}

// newWays counts the answers of each way.
func newWays() map[string]*atomic.Int64 {
	counts := map[string]*atomic.Int64{}
	for _, w := range ways {
		counts[w.name] = &atomic.Int64{}
	}
	return counts
}
