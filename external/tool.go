package external

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Forever is the KeyKept of a provider that never forgets: the id of what is made is
// chosen by the caller, as the names of objects in Kubernetes, S3 and git are.
const Forever time.Duration = math.MaxInt64

// Tool is a write tool whose effect is outside of the database. What the provider offers
// decides what is guaranteed; the package documentation has the table. In and Out are
// encoded as JSON. In is stored until the answer is certain: it must hold no secrets. A stored input
// is read strictly, by whatever release of the program: one that has a member which In lacks is parked
// after a few tries.
type Tool[In, Out any] struct {
	// Name is the tool's stable name, as in [dedup.Call].
	Name string

	// Perform makes one attempt. It sends a.Key where the provider takes a key, and
	// returns when nothing more of the attempt will be sent; it must not retry by itself.
	// ctx does not end with the caller's. It ends after Timeout, or when another process may take over.
	//
	// An error wrapped by [dedup.Final] is a refusal: it did not happen, never will, and is
	// recorded. [NotDone] means that this attempt had no effect, and [ErrExists] that the
	// provider knows the key. Any other error, a panic, and the end of ctx mean that the outcome
	// is not known: so does that the provider is still working.
	Perform func(ctx context.Context, a Attempt, in In) (Out, error)
	// Find returns every effect that the provider has for a.Key, or for a marker made of it that
	// Perform sends; none is no error. Two calls may have equal inputs: what is found by in alone may
	// be another call's effect, and would be recorded as this one's. It changes nothing. What the
	// provider has accepted and not ended is an effect, or else an error: an error is no answer, and
	// another look follows. Default none.
	Find func(ctx context.Context, a Attempt, in In) ([]Out, error)

	// Finish writes in the transaction that records a success, and Refused in the one that
	// records a refusal. Each of them takes effect at most once, in whatever process. They must not end tx. ctx ends
	// after Options.Lease, because they keep a connection: the answer is kept then, and recorded later. Default none.
	Finish  func(ctx context.Context, tx pgx.Tx, in In, out Out) error
	Refused func(ctx context.Context, tx pgx.Tx, in In, why error) error

	// Ref returns the provider's id of what happened. It is required with KeyKept and with
	// Find: two effects of one call are told apart by it. A result for which it returns nothing is no
	// success: the outcome is not known then.
	Ref func(out Out) string
	// KeyKept is how long the provider keeps a.Key after its first use. No attempt is made
	// that may take effect when the key is forgotten: Timeout and Settles are counted. It is at
	// least four times Timeout, more than Settles and Options.Lease leave no time for, and at most
	// Retention's Result and Tombstone together, or [Forever]. Zero, the default, means that it
	// takes none.
	KeyKept time.Duration
	// Settles is how long after an attempt has ended it may still take effect, or become
	// visible to Find. Zero, the default, means that this is not known: then nothing is
	// made of a Find that finds nothing. At most a year.
	Settles time.Duration
	// Timeout bounds one attempt. Default 20 s, at most a year.
	Timeout time.Duration

	// Retention says how long the answer is replayed, as in [dedup.Call].
	Retention dedup.Retention
}

// Attempt is what Perform and Find are given.
type Attempt struct {
	// Key is for the provider: a UUID of 36 characters, one per call, the same in every
	// attempt.
	Key string
	// Scope and CallKey are those of the call.
	Scope, CallKey string
}
