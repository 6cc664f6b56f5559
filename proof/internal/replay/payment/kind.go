// Package payment runs the recorded writes as effects outside the database. The provider is in
// the driver's process and its book has the effects that really happened.
package payment

import (
	"time"

	"github.com/tooldedup/dedup/external"
)

// Kind is the provider's abilities and the tools' declarations.
type Kind string

const (
	// Off leaves all effects in the database.
	Off           Kind = ""
	Keys          Kind = "keys"
	LookUpSettles Kind = "look-up-settles"
	LookUp        Kind = "look-up"
	Neither       Kind = "neither"
)

// Kinds are the kinds with a provider.
var Kinds = [...]Kind{Keys, LookUpSettles, LookUp, Neither}

const (
	// Lease is the lease of the workers' external.Options.
	Lease = 500 * time.Millisecond
	// settles is the tools' Settles. A late request takes effect after late. A request older than
	// honest is lost: settles must hold on a slow machine too.
	settles, late, honest = 500 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond
	// timeout is the limit of one attempt.
	timeout = 5 * time.Second
)

// keyKept is the time for which the provider keeps keys, and the tools' KeyKept.
func (k Kind) keyKept() time.Duration {
	if k == Keys {
		return external.Forever
	}
	return 0
}

// AlwaysKnows reports whether no call of the kind may be parked.
func (k Kind) AlwaysKnows() bool { return k == Keys || k == LookUpSettles }
