// Package tool stands in for that of the library, as far as the cases use it.
package tool

import (
	"context"

	"github.com/jackc/pgx/v5"
)

type Class int

const (
	Write    Class = 1
	ReadOnly Class = 2
)

type Tool[In, Out any] struct {
	Name  string
	Class Class
	Run   func(ctx context.Context, tx pgx.Tx, in In) (Out, error)
}

type Invocation struct {
	Scope, Session string
	Turn           int
	CallID, Key    string
	Tool           string
	Args           any
}

type Registry struct{}

func (r *Registry) Invoke(ctx context.Context, inv Invocation) (any, error) { return nil, nil }
