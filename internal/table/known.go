package table

import (
	"context"
	"crypto/sha256"
)

// Known stands in for the arguments of a call whose digests are stored in another table of the
// library: the arguments may be encoded in another way by now.
type Known struct {
	Identity
	Fingerprint [sha256.Size]byte
	ArgDigests  []byte
	// Record is the call's record if it was read together with the digests, else nil.
	Record *Record
}

type knownKey struct{}

// WithKnown returns a context in which the call of k's identity takes its digests from k in place
// of its arguments. Other calls are not affected.
func WithKnown(ctx context.Context, k Known) context.Context {
	return context.WithValue(ctx, knownKey{}, &k)
}

// KnownOf returns what ctx has of a call, nil if it has nothing.
func KnownOf(ctx context.Context, id Identity) *Known {
	if k, ok := ctx.Value(knownKey{}).(*Known); ok && k.Identity == id {
		return k
	}
	return nil
}
