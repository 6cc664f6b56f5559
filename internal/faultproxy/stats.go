package faultproxy

import (
	"maps"
	"slices"
	"sync"
)

// maxStatements bounds the list of statement texts, so that a long campaign does not fill the memory.
const maxStatements = 1 << 16

// Counts is what one connection, or all of them together, did since New or the last Reset. Whatever a client knows
// from an answer is counted by the time it has that answer.
type Counts struct {
	// RoundTrips counts how often the client sent something after start-up and was answered up to a ReadyForQuery
	// that left nothing outstanding. Several units sent before the answer are one; an answer that a fault took away
	// is none.
	RoundTrips int
	// Turns counts how often the client sent after having received, answered or not. The data of a COPY is a turn of
	// its own; the goodbye at the end is none.
	Turns int
	// Units counts the units that clients sent.
	Units int
	// Commits counts the units that carried a COMMIT; Committed counts the COMMIT tags the server answered, including
	// those that a fault took away.
	Commits, Committed int
	// Executed counts the statements of all units. Statements holds the texts of the first 65,536 in the order they
	// came, also those that a fault kept from the server.
	Executed   int
	Statements []string
	// BytesToServer and BytesToClient count what was passed on, start-up included.
	BytesToServer, BytesToClient int64
}

// ConnCounts is the share of one connection.
type ConnCounts struct {
	ID   int // as in Unit.Conn
	Open bool
	Counts
}

// Snapshot is what a proxy has seen since New or the last Reset.
type Snapshot struct {
	Connections int // start-up packets received, cancel requests not among them
	Cancels     int // cancel requests passed on
	Refused     int // connections dropped by Refuse
	Counts          // of all connections together
	Faults      map[Kind]int
	Conns       []ConnCounts // in the order they were opened; Reset forgets those that are closed
}

// ledger holds the numbers behind a Snapshot.
type ledger struct {
	mu     sync.Mutex
	total  Snapshot
	conns  []*ConnCounts
	nextID int
}

// Snapshot returns a copy of all counts.
func (p *Proxy) Snapshot() Snapshot {
	l := &p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	snapshot := l.total
	snapshot.Statements = slices.Clone(l.total.Statements)
	snapshot.Faults = maps.Clone(l.total.Faults)
	for _, c := range l.conns {
		conn := *c
		conn.Statements = slices.Clone(c.Statements)
		snapshot.Conns = append(snapshot.Conns, conn)
	}
	return snapshot
}

// Reset sets all counts to zero, those of the open connections too. Faults stay armed.
func (p *Proxy) Reset() {
	l := &p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total = Snapshot{Faults: map[Kind]int{}}
	l.conns = slices.DeleteFunc(l.conns, func(c *ConnCounts) bool { return !c.Open })
	for _, c := range l.conns {
		c.Counts = Counts{}
	}
}

func (l *ledger) connect() *ConnCounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.Connections++
	l.nextID++
	conn := &ConnCounts{ID: l.nextID, Open: true}
	l.conns = append(l.conns, conn)
	return conn
}

func (l *ledger) disconnect(conn *ConnCounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn.Open = false
}

func (l *ledger) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.Cancels++
}

func (l *ledger) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.Refused++
}

func (l *ledger) fault(kind Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.Faults[kind]++
}

// add applies change to the counts of conn and to the total.
func (l *ledger) add(conn *ConnCounts, change func(*Counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&conn.Counts)
	change(&l.total.Counts)
}

// sent books a unit that a client sent.
func (c *Counts) sent(u Unit) {
	c.Units++
	if u.Commits {
		c.Commits++
	}
	c.Executed += len(u.Executes)
	if room := maxStatements - len(c.Statements); room > 0 {
		c.Statements = append(c.Statements, u.Executes[:min(room, len(u.Executes))]...)
	}
}
