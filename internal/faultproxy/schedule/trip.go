package schedule

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// Fault is what a trip meets.
type Fault string

// The faults. In all of them the client loses its connection.
const (
	None  Fault = ""
	Cut   Fault = "cut"   // the connection is cut before the request; the server knows at once
	Lost  Fault = "lost"  // the request is served, and its answer is lost
	Ended Fault = "ended" // the server process is ended before the request
	Late  Fault = "late"  // the connection is cut, and the request arrives later: a trip of its own
)

// Faults are all of them.
var Faults = []Fault{Cut, Lost, Ended, Late}

// trip is what a caller has sent as one, and is held until it is let go.
type trip struct {
	actor *actor
	unit  faultproxy.Unit
	share share
	// ends is true where it does nothing but end a transaction or leave a savepoint, idle where that has done
	// nothing and is not aborted: its lock was refused.
	ends, idle bool
	labelled   bool // it is decided which fault it meets
	fault      Fault
	decision   chan *faultproxy.Armed
	armed      *faultproxy.Armed // once it is let go, and from the start where it is a late request
	caller     int               // whose late request it is
	// blocked is true where the server has said that the trip waits for another of the callers, by then.
	blocked, deadlocked bool
}

// share is what a trip has in common with those of other callers. Two trips can be swapped if one of them
// is private, or if both are looks.
type share int

const (
	// private: it touches nothing that others use. To these belong the effect, which writes a row of its own;
	// BEGIN and SAVEPOINT; and the end of a transaction that holds no lock and has written nothing.
	private share = iota
	// look: it reads, and leaves neither a lock nor a row behind when it is answered.
	look
	// change: it takes or frees a lock, writes, or ends a transaction that has done one of these.
	change
)

func swappable(a, b share) bool { return a == private || b == private || a == look && b == look }

var (
	writing = regexp.MustCompile(`(?i)\b(insert|update|delete|merge|truncate)\b`)
	ending  = regexp.MustCompile(`(?i)^\s*(commit|end|rollback|abort|release)\b`)
	opening = regexp.MustCompile(`(?i)^\s*(begin|start)\b`)
	locking = regexp.MustCompile(`(?i)\badvisory|_advisory_`)
)

// shareOf says what the statements of a trip share. ends is true where they do nothing but end a transaction.
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
