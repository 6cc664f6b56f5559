// Package payment runs the recorded writes as effects outside of the database,
// against a provider in the driver's process whose book has what really happened.
package payment

import (
	"time"

	"github.com/tooldedup/dedup/external"
)

// Kind is what a provider offers, and what the tools declare.
type Kind string

const (
	// Off leaves all effects in the database.
	Off           Kind = ""
	Keys          Kind = "keys"
	LookUpSettles Kind = "look-up-settles"
	LookUp        Kind = "look-up"
	Neither       Kind = "neither"
)

// Kinds are those of which there is a provider.
var Kinds = [...]Kind{Keys, LookUpSettles, LookUp, Neither}

const (
	// Lease is that of the workers' external.Options.
	Lease = 500 * time.Millisecond
	// settles is what the tools declare. A request that is late takes effect after late. Any
	// is lost that would take effect when it is older than honest: on a machine that is slow
	// too, settles must be true.
	settles, late, honest = 500 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond
	// timeout is that of one attempt.
	timeout = 5 * time.Second
)

// keyKept is how long the provider keeps keys, and the tools say so.
func (k Kind) keyKept() time.Duration {
	if k == Keys {
		return external.Forever
	}
	return 0
}

// AlwaysKnows reports whether nothing of the kind may be parked.
func (k Kind) AlwaysKnows() bool { return k == Keys || k == LookUpSettles }
