package runner

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// carried is the key in a context. tool is set if Do put it there, for a call of that tool.
type carried struct{ key, tool string }

type carriedKey struct{}

// WithKey returns a context that carries a call's key to the code that sends it. Do, Transport,
// PutMeta and the ClientKey of grpcdedup and connectdedup use it, so that no layer makes another.
// An empty key hides the key of ctx.
//
// Every request with the context sends the key. Give the context to the call only, not to other
// writes on the way, such as fetching an access token.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, carriedKey{}, carried{key: key})
}

// KeyFrom returns the key that ctx carries, and whether it carries one.
func KeyFrom(ctx context.Context) (key string, ok bool) {
	c, _ := ctx.Value(carriedKey{}).(carried)
	return c.key, c.key != ""
}

// withCallKey sets the key of a call and returns the context for its tries. The key is the call's
// own, or the context's, or, if the class needs one, a new one.
func withCallKey(ctx context.Context, call *Call) (context.Context, error) {
	outer, _ := ctx.Value(carriedKey{}).(carried)
	stranger := outer.key != "" && outer.tool != "" && outer.tool != call.Tool
	switch {
	case call.Key != "":
	case stranger && call.Class.NeedsKey():
		// A new key would differ in every repeat of the outer call. The outer call's key would
		// merge several calls of this tool inside it.
		return ctx, missing("Key", fmt.Sprintf("is empty, and the context carries the key of a call of %q; give this call its own key, the same on every try: dedup.KeyFromIntent(outerKey, step)", outer.tool))
	case outer.key != "" && !stranger && call.Class != tool.ReadOnly:
		call.Key = outer.key
	case call.Class.NeedsKey():
		call.Key = dedup.NewKey()
	}
	return context.WithValue(ctx, carriedKey{}, carried{key: call.Key, tool: call.Tool}), nil
}
