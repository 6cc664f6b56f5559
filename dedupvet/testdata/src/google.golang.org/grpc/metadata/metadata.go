// Package metadata stands in for the original, as far as the cases use it.
package metadata

import "context"

type MD map[string][]string

func Pairs(kv ...string) MD { return nil }

func (md MD) Set(k string, vals ...string) {}

func AppendToOutgoingContext(ctx context.Context, kv ...string) context.Context { return ctx }

func NewOutgoingContext(ctx context.Context, md MD) context.Context { return ctx }
