package schedule

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// Fault is a fault of a trip.
type Fault string

// The faults. In each of them the client loses its connection.
const (
	None  Fault = ""
	Cut   Fault = "cut"   // the connection is cut before the request; the server knows at once
	Lost  Fault = "lost"  // the request is served, and its answer is lost
	Ended Fault = "ended" // the server process is ended before the request
	Late  Fault = "late"  // the connection is cut, and the request arrives later, as a trip of its own
)

// Faults are all faults.
var Faults = []Fault{Cut, Lost, Ended, Late}

// trip is a request that a caller sent at once. It is held until it is released.
type trip struct {
	actor *actor
	unit  faultproxy.Unit
	share share
	// ends is true if the trip only ends a transaction or leaves a savepoint. idle is true if that
	// transaction has done nothing and is not aborted: its lock was refused.
	ends, idle bool
	labelled   bool // its fault is decided
	fault      Fault
	decision   chan *faultproxy.Armed
	armed      *faultproxy.Armed // set at its release, for a late request from the start
	caller     int               // the caller of a late request
	// blocked is true if the server said that the trip waits for another caller.
	blocked, deadlocked bool
}

// share is the relation of a trip to other callers' trips. Two trips can be swapped if one is
// private or if both are looks.
type share int

const (
	// private: it touches nothing shared. Private are the effect, which writes a new row; BEGIN and
	// SAVEPOINT; and the end of a transaction without a lock and without a write.
	private share = iota
	// look: it reads, and leaves neither a lock nor a row.
	look
	// change: it takes or frees a lock, writes, or ends a transaction that did so.
	change
)

func swappable(a, b share) bool { return a == private || b == private || a == look && b == look }

var (
	writing = regexp.MustCompile(`(?i)\b(insert|update|delete|merge|truncate)\b`)
	ending  = regexp.MustCompile(`(?i)^\s*(commit|end|rollback|abort|release)\b`)
	opening = regexp.MustCompile(`(?i)^\s*(begin|start)\b`)
	locking = regexp.MustCompile(`(?i)\badvisory|_advisory_`)
)

// shareOf returns the share of a trip's statements. ends is true if they only end a transaction.
func shareOf(statements []string, shares func(string) bool) (s share, ends bool) {
	touches, changes := false, false
	ends = true
	for _, sql := range statements {
		touches = touches || shares(sql)
		changes = changes || shares(sql) && writing.MatchString(sql)
		ends = ends && ending.MatchString(sql)
	}
	locks := slices.ContainsFunc(statements, locking.MatchString)
	whole := opening.MatchString(statements[0]) && ending.MatchString(statements[len(statements)-1])
	leaves := slices.ContainsFunc(statements, ending.MatchString)
	switch {
	case ends:
		return change, true // unless the server says that there was nothing to end
	case changes, locks && !whole, leaves && !whole:
		return change, false
	case touches || locks:
		return look, false
	}
	return private, false
}

// text describes a trip.
func text(u faultproxy.Unit) string {
	const most = 44
	var parts []string
	for _, sql := range u.Executes {
		sql = strings.Join(strings.Fields(sql), " ")
		if len(sql) > most {
			sql = sql[:most] + "…"
		}
		parts = append(parts, sql)
	}
	return strings.Join(parts, "; ")
}
