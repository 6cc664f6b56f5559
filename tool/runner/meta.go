package runner

import (
	"context"
	"maps"

	"github.com/tooldedup/dedup"
)

// MetaKey is the member of an MCP request's _meta that carries a call's key.
const MetaKey = "io.github.tooldedup/idempotency-key"

// PutMeta returns a copy of the _meta of an MCP request with the key that ctx
// carries, under [MetaKey]. Where ctx carries none it is a plain copy, nil of nil.
// The map that is given is never changed.
//
// A key that is there already and differs, or is no string, is a
// *[KeyConflictError].
func PutMeta(ctx context.Context, meta map[string]any) (map[string]any, error) {
	copied := maps.Clone(meta)
	key, ok := KeyFrom(ctx)
	if !ok {
		return copied, nil
	}
	if there, ok := copied[MetaKey]; ok && there != key {
		text, _ := there.(string)
		return nil, &KeyConflictError{Where: "_meta " + MetaKey, There: keyHash(text), Carried: dedup.KeyHash(key)}
	}
	if copied == nil {
		copied = make(map[string]any, 1)
	}
	copied[MetaKey] = key
	return copied, nil
}
