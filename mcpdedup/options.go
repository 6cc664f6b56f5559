package mcpdedup

import (
	"context"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/wire"
)

// Options say what cannot be known from the tools. Scope is required; nil and
// zero mean the defaults for the rest.
type Options struct {
	// Scope returns the principal on whose behalf a call is made: the tenant, the
	// account or the user, taken from the request's authentication and never from
	// its arguments. It is asked for every call, of ReadOnly tools too. An error
	// or an empty scope refuses the call as unidentified. Required; see
	// [TokenUser] and [SingleUser].
	Scope func(ctx context.Context, req *mcp.CallToolRequest) (string, error)

	// KeysInMeta says that all clients send keys in _meta. Tools then get no
	// argument for them.
	KeysInMeta bool

	// Envelope answers with every tool's result in the envelope that those of a [tool.ExternalTool]
	// always have, for models that shall see whether an answer is an earlier one's. Not for
	// [Middleware], which keeps results as they are.
	Envelope bool

	// RetryAfter is what a client is told to wait for a call that is in flight, or running.
	// Default 5 seconds, at least 1, at most 1 hour; rounded up to whole ones.
	RetryAfter time.Duration

	// Explain returns the text with which clients are told of a tool's own error,
	// false to keep it from them. It is asked about errors that are not in the
	// package's table, which a tool has returned without [dedup.Final]. Default:
	// none is explained. Not for [Middleware].
	Explain func(ctx context.Context, err error) (text string, ok bool)

	// OnError is told of every error that clients are not told in full, and not of
	// calls that their clients cancelled. It must not block. Default: a line at level
	// Error to slog.Default(), without what the database said but its SQLSTATE.
	OnError func(ctx context.Context, f Failure)
}

// Failure is an error behind an answer that does not tell it.
type Failure struct {
	// Tool is the name of the tool, Code that of the answer; it is
	// "unclassified" of a tool that [Middleware] was not given.
	Tool, Code string
	// KeyHash is the [dedup.KeyHash] of the call's key, empty if it had none.
	KeyHash string
	// Err is the error. It may hold what no client may see.
	Err error
}

const defaultRetryAfter = 5 * time.Second

// checked returns the options with their defaults, or what is wrong with them.
func (o *Options) checked() (Options, error) {
	if o == nil || o.Scope == nil {
		return Options{}, &dedup.InvalidError{What: "option", Field: "Scope", Missing: true, Reason: "is empty; give a function that returns " +
			"the authenticated principal, such as TokenUser, or SingleUser for a server that one user runs"}
	}
	opts := *o
	if opts.RetryAfter == 0 {
		opts.RetryAfter = defaultRetryAfter
	}
	if opts.RetryAfter < time.Second || opts.RetryAfter > time.Hour {
		return Options{}, refuse("RetryAfter", "must be between 1 second and 1 hour")
	}
	return opts, nil
}

func refuse(option, reason string) error {
	return &dedup.InvalidError{What: "option", Field: option, Reason: reason}
}

// report tells the server's author what the client is not told.
func (o *Options) report(ctx context.Context, f Failure) {
	if o.OnError != nil {
		o.OnError(ctx, f)
		return
	}
	slog.ErrorContext(ctx, "mcpdedup: answered an error that clients are not told in full", "tool", f.Tool, "code", f.Code, "key_hash", f.KeyHash, "error", wire.LogText(f.Err))
}
