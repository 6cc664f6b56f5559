package faultproxy

import (
	"maps"
	"slices"
	"sync"
)

// maxStatements bounds the list of statement texts, so that a long campaign does not fill the
// memory.
const maxStatements = 1 << 16

// Snapshot has a proxy's counts since New or the last Reset. A fact that a client learns from an
// answer is counted before that answer arrives.
type Snapshot struct {
	Connections int // start-up packets received, cancel requests not among them
	Used        int // connections on which a unit was sent, new ones or not
	Cancels     int // cancel requests that the server has handled
	Refused     int // connections dropped by Refuse
	// RoundTrips counts how often a client sent something after start-up and was answered up to a
	// ReadyForQuery that left nothing outstanding. Several units sent before the answer are one; an
	// answer that a fault took away is none.
	RoundTrips int
	// Units counts the units that clients sent.
	Units int
	// Commits counts the units that carried a COMMIT; Committed counts the COMMIT tags the server
	// answered, including those that a fault took away.
	Commits, Committed int
	// Statements holds the texts of the first 65,536 statements in their order, also those that a
	// fault kept from the server.
	Statements []string
	// BytesToServer and BytesToClient count the bytes that were passed on, start-up included.
	BytesToServer, BytesToClient int64
	Faults                       map[Kind]int
}

// ledger holds the counts of a Snapshot.
type ledger struct {
	mu     sync.Mutex
	total  Snapshot
	used   map[int]bool // connections, by number
	nextID int
}

// Snapshot returns a copy of all counts.
func (p *Proxy) Snapshot() Snapshot {
	l := &p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	snapshot := l.total
	snapshot.Used = len(l.used)
	snapshot.Statements = slices.Clone(l.total.Statements)
	snapshot.Faults = maps.Clone(l.total.Faults)
	return snapshot
}

// Reset sets all counts to zero. Faults stay armed.
func (p *Proxy) Reset() {
	l := &p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total, l.used = Snapshot{Faults: map[Kind]int{}}, map[int]bool{}
}

// count changes the counts.
func (l *ledger) count(change func(*Snapshot)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.total)
}

// connect counts a connection and returns its number.
func (l *ledger) connect() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.Connections++
	l.nextID++
	return l.nextID
}

// sent counts a unit of a client.
func (l *ledger) sent(u Unit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[u.Conn] = true
	l.total.Units++
	if u.Commits {
		l.total.Commits++
	}
	if room := maxStatements - len(l.total.Statements); room > 0 {
		l.total.Statements = append(l.total.Statements, u.Executes[:min(room, len(u.Executes))]...)
	}
}
