package runner

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// carried is the key that a context carries, and the tool for whose call Do put
// it there; tool is empty where somebody else did.
type carried struct{ key, tool string }

type carriedKey struct{}

// WithKey returns a context that carries a call's key to whatever sends it: Do,
// Transport and PutMeta take it from there, so that no layer mints another. An
// empty key hides the one that ctx carries.
//
// Everything that is sent with the context takes the key along. So give it to
// the call, and not to other writes that are made on the way to it, such as
// fetching an access token.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, carriedKey{}, carried{key: key})
}

// KeyFrom returns the key that ctx carries, and whether it carries one.
func KeyFrom(ctx context.Context) (key string, ok bool) {
	c, _ := ctx.Value(carriedKey{}).(carried)
	return c.key, c.key != ""
}

// withCallKey returns the context for the tries of a call, and gives the call its key: its own,
// else the one that ctx carries, else, where the class needs one, a new one.
func withCallKey(ctx context.Context, call *Call) (context.Context, error) {
	outer, _ := ctx.Value(carriedKey{}).(carried)
	stranger := outer.key != "" && outer.tool != "" && outer.tool != call.Tool
	switch {
	case call.Key != "":
	case stranger && call.Class.NeedsKey():
		// A new key would be another one with every repeat of the outer call, and
		// the outer call's own would merge several calls of this tool inside it.
		return ctx, missing("Key", fmt.Sprintf("is empty, and the context carries that of a call of %q; give this call its own, the same on every try: dedup.KeyFromIntent(outerKey, step)", outer.tool))
	case outer.key != "" && !stranger && call.Class != tool.ReadOnly:
		call.Key = outer.key
	case call.Class.NeedsKey():
		call.Key = dedup.NewKey()
	}
	return context.WithValue(ctx, carriedKey{}, carried{key: call.Key, tool: call.Tool}), nil
}

// conflict refuses a request that carries another key than its context, so that two layers have
// made one each.
func conflict(where, key string) error {
	return invalid("Key", fmt.Sprintf("is %s in the context, and %s has another already; let one layer make the key, or hide the context's with WithKey(ctx, \"\")", dedup.KeyHash(key), where))
}
