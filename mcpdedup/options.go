package mcpdedup

import (
	"context"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/wire"
)

// Options configure AddTools and Middleware. Scope is required. The zero value of any other field
// means its default.
type Options struct {
	// Scope returns the principal of a call: the tenant, the account or the user. Take it from the
	// request's authentication, never from its arguments. It is called for every call, also of
	// ReadOnly tools. An error or an empty scope refuses the call as unidentified. Required; see
	// [TokenUser] and [SingleUser].
	Scope func(ctx context.Context, req *mcp.CallToolRequest) (string, error)

	// KeysInMeta declares that all clients send keys in _meta. Tools then get no argument for the
	// key. Default: false.
	KeysInMeta bool

	// Envelope wraps the result of every tool in the envelope of a [tool.ExternalTool], so that
	// models see whether the answer is a repeat. [Middleware] refuses it, because it does not
	// change results. Default: false.
	Envelope bool

	// RetryAfter is how long a client is told to wait for a call that is in flight or running. At
	// least 1 second, at most 1 hour; it is rounded up to whole seconds. Default: 5 seconds.
	RetryAfter time.Duration

	// Explain returns the client's text for a tool's own error, or false to hide the error. It gets
	// errors that a tool returned without [dedup.Final] and that are not in the package's table.
	// [Middleware] refuses it. Default: every such error is hidden.
	Explain func(ctx context.Context, err error) (text string, ok bool)

	// OnError gets every error whose details clients do not see, but not calls that their clients
	// cancelled. It must not block. Default: a line at level Error to slog.Default(); of the
	// database's message only the SQLSTATE.
	OnError func(ctx context.Context, f Failure)
}

// Failure is an error whose details the client did not see.
type Failure struct {
	// Tool is the tool's name and Code the answer's code. Code is "unclassified" for a tool that
	// [Middleware] has no Policy for.
	Tool, Code string
	// KeyHash is the [dedup.KeyHash] of the call's key, empty if the call had none.
	KeyHash string
	// Err is the error. It may have details that no client may see.
	Err error
}

const defaultRetryAfter = 5 * time.Second

// checked returns the options with their defaults, or a *dedup.InvalidError.
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

// report passes a failure to OnError, or logs it.
func (o *Options) report(ctx context.Context, f Failure) {
	if o.OnError != nil {
		o.OnError(ctx, f)
		return
	}
	slog.ErrorContext(ctx, "mcpdedup: answered an error that clients are not told in full", "tool", f.Tool, "code", f.Code, "key_hash", f.KeyHash, "error", wire.LogText(f.Err))
}
