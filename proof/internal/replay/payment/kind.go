// Package payment runs the recorded calls that pay somebody as effects outside of the
// database: against a provider in the driver's process that keeps a book of what really
// happened, of each kind that package external knows.
package payment

import (
	"fmt"
	"slices"
	"strings"
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

var kinds = [...]Kind{Keys, LookUpSettles, LookUp, Neither}

// ParseKind reads the name of a kind; "" is Off.
func ParseKind(name string) (Kind, error) {
	if kind := Kind(name); kind == Off || slices.Contains(kinds[:], kind) {
		return kind, nil
	}
	return Off, fmt.Errorf("unknown kind %q; known are %s", name, KindNames())
}

// KindNames lists all kinds for a help text.
func KindNames() string {
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = string(kind)
	}
	return strings.Join(names, ", ")
}

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

// settles is what the tools declare.
func (k Kind) settles() time.Duration {
	if k == LookUpSettles {
		return settles
	}
	return 0
}

// finds reports whether the provider can be looked up.
func (k Kind) finds() bool { return k == LookUpSettles || k == LookUp }

// AlwaysKnows reports whether nothing of the kind may be parked.
func (k Kind) AlwaysKnows() bool { return k == Keys || k == LookUpSettles }

// begins are the tools that pay, and whether they write with the claim, so that its
// COMMIT meets the faults of a plan.
var begins = map[string]bool{
	"send_certificate":             true,
	"cancel_pending_order":         true,
	"modify_pending_order_items":   false,
	"modify_pending_order_payment": false,
}

// Pays reports whether calls of a tool are effects outside of the database.
func (k Kind) Pays(tool string) bool {
	_, pays := begins[tool]
	return k != Off && pays
}
