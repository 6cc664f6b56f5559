package table

import (
	"context"
	"crypto/sha256"
)

// Known replaces the arguments of a call whose digests are stored in another table of the library.
// By now the arguments may be encoded differently.
type Known struct {
	Identity
	Fingerprint [sha256.Size]byte
	ArgDigests  []byte
	// Record is the call's record if it was read together with the digests, else nil.
	Record *Record
}

type knownKey struct{}

// WithKnown returns a context in which the call of k's identity uses the digests in k instead of
// its arguments. Other calls are not affected.
func WithKnown(ctx context.Context, k Known) context.Context {
	return context.WithValue(ctx, knownKey{}, &k)
}

// KnownOf returns the Known of a call in ctx, or nil.
func KnownOf(ctx context.Context, id Identity) *Known {
	if k, ok := ctx.Value(knownKey{}).(*Known); ok && k.Identity == id {
		return k
	}
	return nil
}
