package outside

import (
	"time"

	"github.com/tooldedup/dedup/external"
)

// arm is one kind of provider and a tool for it. Times are in leases.
type arm struct {
	Name string
	// The tool declares these; see [external.Tool]. KeyKept may be forever.
	Find             bool
	KeyKept, Settles float64
	// Forgets is the time for which the provider keeps a key. 0 is for ever.
	Forgets float64
	// An attempt may take effect, or become visible, this long after it was claimed. A later effect
	// is lost. The default is Settles. If both are 0, nothing bounds it.
	Late float64
	// The provider keeps a refusal under its key; has outages; counts a key's time from its first
	// request, even a failed one; answers 409, 429 and 500 after acting; answers 202 and lists
	// finished jobs only; keeps a 500 under its key for ever.
	KeepsRefusals, Outages, FirstUse, After, Jobs, Keeps500 bool

	// Releases: the first worker is of an earlier release of the tool, with neither the key nor
	// Find and with another result. A look-up finds only effects with the marker of the later
	// release.
	Releases bool
	// Rejects: the provider rejects a used key, and forgets the key after the row has the
	// rejection. It lists an effect Late.
	Rejects bool
	// Locks: another transaction locks the rows that Finish and Refused write to, for a lease or
	// more.
	Locks bool

	Saga    bool
	Control control
}

// control is a planted mistake of an arm. It shows that the campaign notices one.
type control int

const (
	right           control = iota
	leaseThenAgain          // no library: a lease, and a caller that finds it expired runs again
	triesInside             // Perform tries three times
	keyPerAttempt           // each attempt has a new key
	keyForgotten            // KeyKept is longer than the provider keeps a key
	settlesEarly            // Settles is too short
	statusRefuses           // every status except 200 counts as a refusal
	forgetsAttempts         // the row forgets the requests and the rejections of its attempts
	writesBeside            // Finish writes on another connection
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
	{Name: "keys-rejected", KeyKept: forever, Find: true, KeepsRefusals: true, Late: veryLate, Rejects: true},
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
	{Name: "control-keys-rejected", KeyKept: forever, Find: true, KeepsRefusals: true, Late: veryLate, Rejects: true, Control: forgetsAttempts},
	{Name: "control-locked-rows", KeyKept: forever, KeepsRefusals: true, Locks: true, Control: writesBeside},
	{Name: "control-kept-500", KeyKept: forever, KeepsRefusals: true, Keeps500: true, Control: statusRefuses},
}

const (
	lease   = time.Second
	forever = -1
	// timeout is the tool's Timeout. settles is the Settles of a tool that declares one.
	timeout, settles = 1, 1.2
	// shortKept is the time for which a forgetful provider keeps a key. An outage is longer.
	shortKept, outage, betweenOutages = 6, 8, 8
	// soonest and latest bound the delay of a late request, unless the arm bounds it.
	soonest, latest = 0.3, 2
	// early is the Settles of the arms whose requests are as late as veryLate. The recheck comes ten
	// times later, and still in time.
	early, veryLate = 0.6, 5
	// A control has this share of the operations, and at least controlLeast if the other arms have
	// as many.
	controlShare, controlLeast = 5, 120
)

// leases returns n leases as a duration.
func leases(n float64) time.Duration {
	if n == forever {
		return external.Forever
	}
	return time.Duration(n * float64(lease))
}

// Arms returns the names of all arms.
func Arms() (names []string) {
	for _, a := range arms {
		names = append(names, a.Name)
	}
	return names
}

// tools returns the names of the arm's tools.
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
