package outside

import (
	"time"

	"github.com/tooldedup/dedup/external"
)

// arm is one kind of provider, and a tool for it. Times are in leases.
type arm struct {
	Name string
	// The tool declares these; see [external.Tool]. KeyKept may be forever.
	Find             bool
	KeyKept, Settles float64
	// The provider keeps a key for so long, 0 for ever.
	Forgets float64
	// An attempt may take effect, or become visible, so long after it was claimed: what would do so later is
	// lost. Default Settles; where both are 0, nothing bounds it.
	Late float64
	// The provider keeps a refusal under its key; has outages; counts a key's time from its first request,
	// even one that failed; answers 409, 429 and 500 when it has acted; answers 202, and lists what is
	// finished; keeps a 500 under its key for ever.
	KeepsRefusals, Outages, FirstUse, After, Jobs, Keeps500 bool

	// Releases: the first worker is of an earlier release of the tool, which has neither the key nor Find, and another
	// result. Only what has the marker of the later one is found.
	Releases bool
	// Rejects: the provider rejects a used key, and forgets it when the row has that; it lists an effect Late.
	Rejects bool
	// Locks: somebody locks the rows that Finish and Refused write to, for a lease or more.
	Locks bool

	Saga    bool
	Control control
}

// control is what an arm does wrong, to show that the campaign notices.
type control int

const (
	right           control = iota
	leaseThenAgain          // no library: a lease, and whoever finds it over runs again
	triesInside             // Perform tries three times
	keyPerAttempt           // a new key with every attempt
	keyForgotten            // KeyKept is longer than the provider keeps it
	settlesEarly            // Settles is shorter than it takes
	statusRefuses           // every status but 200 is taken for a refusal
	forgetsAttempts         // the row does not keep what its attempts were sent with, and that one exists
	writesBeside            // Finish writes on a connection of its own
)

var arms = []arm{
	{Name: "keys", KeyKept: forever, KeepsRefusals: true},
	{Name: "look-up-settles", Find: true, Settles: settles},
	{Name: "keys-6-and-look-up", KeyKept: shortKept, Forgets: shortKept, Find: true, Settles: settles, Outages: true},
	{Name: "look-up", Find: true},
	{Name: "neither"},
	{Name: "keys-6", KeyKept: shortKept, Forgets: shortKept, Settles: settles, Outages: true},
	{Name: "keys-first-use", KeyKept: shortKept, Forgets: shortKept, Settles: settles, Outages: true, FirstUse: true},
	{Name: "keys-answered-after", KeyKept: forever, KeepsRefusals: true, After: true},
	{Name: "look-up-jobs", Find: true, Settles: settles, Jobs: true},
	{Name: "keys-kept-500", KeyKept: forever, KeepsRefusals: true, Keeps500: true},
	{Name: "releases", KeyKept: forever, Find: true, Settles: settles, Releases: true},
	{Name: "keys-rejected", KeyKept: forever, Find: true, Late: veryLate, Rejects: true},
	{Name: "locked-rows", KeyKept: forever, KeepsRefusals: true, Locks: true},
	{Name: "saga", KeyKept: forever, Settles: settles, Saga: true},
	{Name: "control-lease", Control: leaseThenAgain},
	{Name: "control-tries", Control: triesInside},
	{Name: "control-key-per-attempt", KeyKept: forever, Control: keyPerAttempt},
	{Name: "control-forgotten-keys", KeyKept: forever, Forgets: shortKept, Outages: true, Control: keyForgotten},
	{Name: "control-settles", Find: true, Settles: early, Late: veryLate, Control: settlesEarly},
	{Name: "control-first-use", KeyKept: forever, Forgets: shortKept, Outages: true, FirstUse: true, Control: keyForgotten},
	{Name: "control-answered-after", KeyKept: forever, KeepsRefusals: true, After: true, Control: statusRefuses},
	{Name: "control-jobs", Find: true, Settles: early, Late: veryLate, Jobs: true, Control: settlesEarly},
	{Name: "control-releases", KeyKept: forever, Find: true, Settles: settles, Releases: true, Control: forgetsAttempts},
	{Name: "control-keys-rejected", KeyKept: forever, Find: true, Late: veryLate, Rejects: true, Control: forgetsAttempts},
	{Name: "control-locked-rows", KeyKept: forever, KeepsRefusals: true, Locks: true, Control: writesBeside},
	{Name: "control-kept-500", KeyKept: forever, KeepsRefusals: true, Keeps500: true, Control: statusRefuses},
}

const (
	lease   = time.Second
	forever = -1
	// timeout is the tool's Timeout, and settles the Settles of a tool that declares it.
	timeout, settles = 1, 1.2
	// shortKept is how long a forgetful provider keeps a key. An outage is longer.
	shortKept, outage, betweenOutages = 6, 8, 8
	// soonest and latest bound how late a request takes effect that is late, where nothing else does.
	soonest, latest = 0.3, 2
	// early is the Settles of the arms where requests are as late as veryLate. The audit, after ten times as
	// long, still comes in time.
	early, veryLate = 0.6, 5
	// A control has this share of the operations, and at least controlLeast where the other arms have that many.
	controlShare, controlLeast = 5, 120
)

// leases are so many of them, as a duration.
func leases(n float64) time.Duration {
	if n == forever {
		return external.Forever
	}
	return time.Duration(n * float64(lease))
}

// Arms are the names of all arms.
func Arms() (names []string) {
	for _, a := range arms {
		names = append(names, a.Name)
	}
	return names
}

// tools are the names of the arm's tools.
func (a arm) tools() []string {
	if a.Saga {
		return []string{sagaCharge, sagaShip, sagaRefund}
	}
	return []string{a.Name}
}

const (
	sagaCharge, sagaShip, sagaRefund = "saga-charge", "saga-ship", "saga-refund"
	sagaReserve, sagaRelease         = "saga-reserve", "saga-release" // in the database
)
