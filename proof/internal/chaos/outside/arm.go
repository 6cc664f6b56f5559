package outside

import (
	"time"

	"github.com/tooldedup/dedup/external"
)

// arm is one kind of provider, and a tool for it. Durations are in leases.
type arm struct {
	name string
	// What the tool declares; see external.Tool. forever stands for external.Forever. With
	// settles it declares the bound that the form says, and the provider keeps it: what would
	// take effect or become visible later after its attempt was claimed is lost.
	keyKept       float64
	find, settles bool
	// What the provider does. forgets is how long it keeps a key, 0 for ever. keepsRefusals: a
	// refusal is kept under its key.
	forgets       float64
	keepsRefusals bool
	outages       bool
	// firstUse: a key's time begins with its first request, even one that failed. after: it
	// answers with 409, 429 and 500 when it has acted. jobs: it answers 202, and a look-up lists what
	// is finished. keeps500: a 500 is kept under its key for ever.
	firstUse, after, jobs, keeps500 bool

	durable bool // on a server with fsync, in the long form
	saga    bool
	control control
}

// control is what an arm does wrong, and so shows that the campaign would notice.
type control int

const (
	right          control = iota
	leaseThenAgain         // no library: a lease, and whoever finds it over runs again
	triesInside            // Perform tries three times
	keyPerAttempt          // a new key with every attempt
	keyForgotten           // KeyKept is longer than the provider keeps it
	settlesEarly           // Settles is shorter than it takes
	statusRefuses          // every status but 200 is taken for a refusal
)

const (
	forever = -1
	// timeout is the tool's Timeout.
	timeout = 1
	// latest and soonest bound how late a request takes effect that is late.
	latest, soonest = 2, 0.3
	// shortKept is how long a forgetful provider keeps a key; an outage is longer.
	shortKept, outage, betweenOutages = 6, 8, 8
	// early is the Settles of the arm where requests are veryLate, and many of them. The audit,
	// after ten times as long, still comes in time.
	early, veryLate, manyLate = 0.6, 5, 8
	// answeredAfter is how many per cent of the requests are answered with an error when they were
	// acted on, where the provider does that.
	answeredAfter = 6
	// shortestPause and longestPause bound how long a process is halted.
	shortestPause, longestPause = 0.3, 3
	// patience is how long a caller's first try waits for an answer.
	patience = 6
)

// arms are all of them.
var arms = []arm{
	{name: "keys", keyKept: forever, keepsRefusals: true},
	{name: "look-up-settles", find: true, settles: true, durable: true},
	{name: "keys-6-and-look-up", keyKept: shortKept, forgets: shortKept, find: true, settles: true, outages: true},
	{name: "look-up", find: true},
	{name: "neither"},
	{name: "keys-6", keyKept: shortKept, forgets: shortKept, settles: true, outages: true},
	{name: "keys-first-use", keyKept: shortKept, forgets: shortKept, settles: true, outages: true, firstUse: true},
	{name: "keys-answered-after", keyKept: forever, keepsRefusals: true, after: true},
	{name: "look-up-jobs", find: true, settles: true, jobs: true},
	{name: "keys-kept-500", keyKept: forever, keepsRefusals: true, keeps500: true},
	{name: "saga", keyKept: forever, settles: true, saga: true},
	{name: "control-lease", control: leaseThenAgain},
	{name: "control-tries", control: triesInside},
	{name: "control-key-per-attempt", keyKept: forever, control: keyPerAttempt},
	{name: "control-forgotten-keys", keyKept: forever, forgets: shortKept, outages: true, control: keyForgotten},
	{name: "control-settles", find: true, settles: true, control: settlesEarly},
	{name: "control-first-use", keyKept: forever, forgets: shortKept, outages: true, firstUse: true, control: keyForgotten},
	{name: "control-answered-after", keyKept: forever, keepsRefusals: true, after: true, control: statusRefuses},
	{name: "control-jobs", find: true, settles: true, jobs: true, control: settlesEarly},
	{name: "control-kept-500", keyKept: forever, keepsRefusals: true, keeps500: true, control: statusRefuses},
}

// Arms are the names of all arms.
func Arms() (names []string) {
	for _, a := range arms {
		names = append(names, a.name)
	}
	return names
}

func armOf(name string) *arm {
	for i := range arms {
		if arms[i].name == name {
			return &arms[i]
		}
	}
	return nil
}

// tools are the names of the arm's tools.
func (a *arm) tools() []string {
	if a.saga {
		return []string{sagaCharge, sagaShip, sagaRefund}
	}
	return []string{a.name}
}

const (
	sagaCharge, sagaShip, sagaRefund = "saga-charge", "saga-ship", "saga-refund"
	sagaReserve, sagaRelease         = "saga-reserve", "saga-release" // in the database
)

// leases are so many of them, as a duration.
func leases(n float64, lease time.Duration) time.Duration {
	if n == forever {
		return external.Forever
	}
	return time.Duration(n * float64(lease))
}

// declared is the tool's Settles, in leases, and honest how long after it was claimed an
// attempt may take effect: 0 where nothing bounds it.
func (a *arm) declared(bound float64) float64 {
	switch {
	case !a.settles:
		return 0
	case a.control == settlesEarly:
		return early
	}
	return bound
}

func (a *arm) honest(bound float64) float64 {
	if a.control == settlesEarly {
		return veryLate
	}
	return a.declared(bound)
}

// form says how hard an arm is tried.
type form struct {
	lease time.Duration
	// bound is the Settles of tools that declare it, in leases.
	bound          float64
	callers, conns int // of a worker
	// kill and pause are the chances at each step.
	kill, pause float64
	// rate multiplies the provider's faults.
	rate         float64
	restartEvery time.Duration
	// short: several arms at once, none with fsync, and what is parked is not waited for.
	short bool
}

var (
	longForm = form{
		lease: time.Second, bound: 2, callers: 24, conns: 24, kill: 0.0005, pause: 0.0002, rate: 1,
		restartEvery: 15 * time.Second,
	}
	shortForm = form{
		lease: time.Second, bound: 1.2, callers: 8, conns: 3, kill: 0.001, pause: 0.001, rate: 3,
		restartEvery: 6 * time.Second, short: true,
	}
)

// sendingShare is how much more often a process is halted between check and send than at
// any other step.
const sendingShare = 4
