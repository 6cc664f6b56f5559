package external

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Forever is the KeyKept of a provider that never forgets a key. Such a provider lets the caller
// choose the id of what it creates, as Kubernetes, S3 and git do for the names of objects.
const Forever time.Duration = math.MaxInt64

// Tool is a write tool whose effect is outside the database. The features of the provider decide
// what is guaranteed; the package documentation has the table. In and Out are encoded as JSON.
//
// In is stored until the answer is certain: it must hold no secrets. Every release of the program
// reads a stored input strictly: if it has a member that In lacks, the operation is parked after a
// few tries.
type Tool[In, Out any] struct {
	// Name is the tool's stable name, as in [dedup.Call].
	Name string

	// Perform makes one attempt. It sends a.Key if the provider takes a key. It returns when
	// nothing more of the attempt will be sent, and it must not retry. ctx does not end with the
	// caller's context. It ends after Timeout, or when another process may take over.
	//
	// An error wrapped by [dedup.Final] is a refusal: the effect did not happen and never will. It
	// is recorded. [NotDone] means that this attempt had no effect. [ErrExists] means that the
	// provider knows the key. With any other error, a panic or the end of ctx the outcome is
	// unknown. Return such an error also if the provider is still working.
	Perform func(ctx context.Context, a Attempt, in In) (Out, error)
	// Find returns every effect that the provider has for a.Key, or for a marker that Perform
	// derives from a.Key and sends. No effects and a nil error mean that nothing was found. Do not
	// search by in alone: two calls may have equal inputs, and the other call's effect would be
	// recorded as this one's.
	//
	// Find changes nothing. If the provider has accepted a request and not finished it, return it
	// as an effect, or return an error: another look-up follows. Default: none.
	Find func(ctx context.Context, a Attempt, in In) ([]Out, error)

	// Finish writes in the transaction that records a success. Refused writes in the one that
	// records a refusal. Each takes effect at most once, in any process. They must not end tx. ctx
	// ends after Options.Lease, because they hold a connection; the answer is kept then and
	// recorded later. Default: none.
	Finish  func(ctx context.Context, tx pgx.Tx, in In, out Out) error
	Refused func(ctx context.Context, tx pgx.Tx, in In, why error) error

	// Ref returns the provider's id of the effect. It is required with KeyKept and with Find: two
	// effects of one call have different refs. A result with an empty ref is not a success; the
	// outcome is unknown then.
	Ref func(out Out) string
	// KeyKept is how long the provider keeps a.Key after its first use. An attempt is made only if
	// it takes effect before the key is forgotten, Timeout and Settles included. KeyKept must be at
	// least four times Timeout, and longer than the time that Settles, Timeout and Options.Lease
	// need. It must be at most Retention's Result and Tombstone together, or [Forever]. Zero, the
	// default, means that the provider takes no key.
	KeyKept time.Duration
	// Settles is how long after its end an attempt may still take effect or become visible to Find.
	// Zero, the default, means unknown: then a Find that returns nothing proves nothing. At most a
	// year.
	Settles time.Duration
	// Timeout bounds one attempt. Default: 20 s, at most a year.
	Timeout time.Duration

	// Retention is how long the answer is replayed, as in [dedup.Call]. The answer must be kept.
	Retention dedup.Retention
}

// Attempt is passed to Perform and Find.
type Attempt struct {
	// Key is for the provider: a UUID of 36 characters. It is the same in every attempt of a call.
	Key string
	// Scope and CallKey are the call's Scope and Key.
	Scope, CallKey string
}
