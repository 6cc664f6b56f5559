package dedup

import (
	"context"
	"log/slog"
	"slices"
)

type attrsKey struct{}

// WithAttrs returns a context whose calls have these attributes in every event that tracers
// are told: [SlogTracer] writes them on each line, and oteldedup on each span. They say who
// calls, such as the agent and the conversation. Those of ctx are kept, but for ones of the
// same key, which are replaced.
//
// They are no part of a call's identity or arguments, and are not stored: a replay has those
// of its own caller, and what external.Tools.Recover does later has none. They are no labels of
// metrics. Calls of one DoBatch share those of its context.
//
// Package tool sets "session" and "turn" for every call that comes with a session.
func WithAttrs(ctx context.Context, attrs ...slog.Attr) context.Context {
	all := slices.DeleteFunc(slices.Clone(AttrsOf(ctx)), func(old slog.Attr) bool {
		return slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == old.Key })
	})
	return context.WithValue(ctx, attrsKey{}, append(all, attrs...))
}

// AttrsOf returns the attributes that [WithAttrs] has given ctx, nil where there are none. The
// slice must not be changed.
func AttrsOf(ctx context.Context) []slog.Attr {
	attrs, _ := ctx.Value(attrsKey{}).([]slog.Attr)
	return attrs
}
