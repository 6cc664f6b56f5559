package outside

import (
	"time"

	"github.com/tooldedup/dedup/external"
)

// arm is one kind of provider, and a tool for it. Durations are in leases.
type arm struct {
	name string
	// What the tool declares; see external.Tool. forever stands for external.Forever.
	keyKept, settles float64
	find             bool
	// What the provider does. forgets is how long it keeps a key, 0 for ever. honest is how
	// long after an attempt was claimed it may still take effect or become visible, 0 without
	// bound: what would come later is lost. keepsRefusals: a refusal is kept under its key.
	// late is how late a request takes effect at most; 0 for latest.
	forgets, honest, late float64
	keepsRefusals         bool
	outages               bool

	durable bool // on a server with fsync
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
)

const (
	forever = -1
	// timeout is the tool's Timeout.
	timeout = 1
	// latest and soonest bound how late a request takes effect that is late.
	latest, soonest = 2, 0.3
	// shortKept is how long a forgetful provider keeps a key; an outage is longer.
	shortKept, outage, betweenOutages = 6, 8, 8
	// early is less than veryLate. The audit, after ten times as long, still comes in time.
	early, veryLate = 0.6, 5
	// shortestPause and longestPause bound how long a process is halted.
	shortestPause, longestPause = 0.3, 3
	// patience is how long a caller waits for an answer.
	patience = 6
)

// arms are all of them. Those that declare Settles have a provider for which it is true.
var arms = []arm{
	{name: "keys", keyKept: forever, keepsRefusals: true},
	{name: "look-up-settles", find: true, settles: latest, honest: latest, durable: true},
	{name: "keys-6-and-look-up", keyKept: shortKept, forgets: shortKept, find: true, settles: latest, honest: latest, outages: true},
	{name: "look-up", find: true},
	{name: "neither"},
	{name: "keys-6", keyKept: shortKept, forgets: shortKept, settles: latest, honest: latest, outages: true},
	{name: "saga", keyKept: forever, settles: latest, honest: latest, saga: true},
	{name: "control-lease", control: leaseThenAgain},
	{name: "control-tries", control: triesInside},
	{name: "control-key-per-attempt", keyKept: forever, control: keyPerAttempt},
	{name: "control-forgotten-keys", keyKept: forever, forgets: shortKept, outages: true, control: keyForgotten},
	{name: "control-settles", find: true, settles: early, late: veryLate, honest: veryLate, control: settlesEarly},
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

// form says how hard an arm is tried.
type form struct {
	lease          time.Duration
	callers, conns int // of a worker
	// kill and pause are the chances at each step.
	kill, pause float64
	// rate multiplies the provider's faults.
	rate         float64
	restartEvery time.Duration
	together     bool // all arms at once
	// limit is the longest that an arm's calls may take.
	limit time.Duration
}

var (
	longForm = form{
		lease: time.Second, callers: 24, conns: 24, kill: 0.0005, pause: 0.0002, rate: 1,
		restartEvery: 15 * time.Second, limit: 30 * time.Minute,
	}
	shortForm = form{
		lease: 400 * time.Millisecond, callers: 8, conns: 6, kill: 0.0015, pause: 0.001, rate: 3,
		restartEvery: 4 * time.Second, together: true, limit: 3 * time.Minute,
	}
)

// sendingShare is how much more often a process is halted between check and send than at
// any other step.
const sendingShare = 4
