package rpc

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/wire"
	"github.com/tooldedup/dedup/tool"
)

// Options are those of both doors, whose types of the same fields document them.
type Options struct {
	Methods     []string
	Scope       func(ctx context.Context) (string, error)
	Tools       *tool.Registry
	ToolOf      map[string]string
	Retention   dedup.Retention
	RetentionOf map[string]dedup.Retention
	MaxWait     time.Duration
	RetryAfter  time.Duration
	OnError     func(ctx context.Context, method string, err error)
}

// Door intercepts the methods of a server.
type Door struct {
	d        *dedup.Deduper
	opts     Options
	keyPlace string
	methods  map[string]*method
}

// New checks the options. The error is a *dedup.InvalidError. keyPlace is what clients call the
// place of a key that is no field: "metadata" or "header".
func New(d *dedup.Deduper, opts Options, keyPlace string) (*Door, error) {
	if invalid := door.CheckRetention(d, opts.Retention); invalid != nil {
		return nil, invalid
	}
	switch {
	case opts.Scope == nil:
		return nil, &dedup.InvalidError{What: "option", Field: "Scope", Missing: true, Reason: "is required: return the tenant, client or account that the context was authenticated for"}
	case opts.RetryAfter < 0 || opts.RetryAfter > time.Hour:
		return nil, invalid("RetryAfter", "must be positive and at most 1h; leave it out for 1s")
	case opts.Tools != nil && opts.Tools.Deduper() != d:
		return nil, invalid("Tools", "has another Deduper; make both with one")
	}
	opts.RetryAfter = cmp.Or(opts.RetryAfter, time.Second)
	opts.MaxWait = cmp.Or(opts.MaxWait, 10*time.Second)
	if opts.OnError == nil {
		opts.OnError = logError
	}
	methods, err := findAll(d, opts)
	if err != nil {
		return nil, err
	}
	return &Door{d: d, opts: opts, keyPlace: keyPlace, methods: methods}, nil
}

// logError writes a line. What the database said is left out, because it may quote values.
func logError(ctx context.Context, method string, err error) {
	slog.ErrorContext(ctx, "dedup: a call failed on the server's side", "method", method, "error", wire.LogText(err))
}

func invalid(option, format string, args ...any) *dedup.InvalidError {
	return &dedup.InvalidError{What: "option", Field: option, Reason: fmt.Sprintf(format, args...)}
}
