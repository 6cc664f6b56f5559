// Package external stands in for that of the library, as far as the cases use it.
package external

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

type Attempt struct {
	Key            string
	Scope, CallKey string
}

type Tool[In, Out any] struct {
	Name    string
	Perform func(ctx context.Context, a Attempt, in In) (Out, error)
	Find    func(ctx context.Context, a Attempt, in In) ([]Out, error)
	Finish  func(ctx context.Context, tx pgx.Tx, in In, out Out) error
	Refused func(ctx context.Context, tx pgx.Tx, in In, why error) error
}

type Operation struct{ Key string }

type Options struct {
	Enqueue func(ctx context.Context, tx pgx.Tx, op Operation) error
}

type Tools struct{}

func New(d *dedup.Deduper, opts *Options) (*Tools, error) { return nil, nil }

type Handle[In, Out any] struct{}

func Add[In, Out any](x *Tools, t Tool[In, Out]) (*Handle[In, Out], error) { return nil, nil }

func (h *Handle[In, Out]) Do(ctx context.Context, call dedup.Call, in In) (dedup.Result[Out], error) {
	return dedup.Result[Out]{}, nil
}

func (h *Handle[In, Out]) Accept(ctx context.Context, tx pgx.Tx, call dedup.Call, in In) (Operation, error) {
	return Operation{}, nil
}

func (x *Tools) Do(ctx context.Context, call dedup.Call, in json.RawMessage) (dedup.Result[json.RawMessage], error) {
	return dedup.Result[json.RawMessage]{}, nil
}

func (x *Tools) Recover(ctx context.Context) error { return nil }

type Verdict struct{}

func Never(reason string) Verdict { return Verdict{} }

func (x *Tools) Resolve(ctx context.Context, op Operation, v Verdict) error { return nil }

type Step struct {
	Do, Undo func(ctx context.Context) error
}

func Saga(ctx context.Context, steps ...Step) error { return nil }
