package deduptest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// Proxy stands between clients and one Postgres server, reads the frames of the
// wire protocol, and injects faults exactly where they are aimed. It follows
// prepared statements and pipelines: a COMMIT is found whether it travels as a
// query or as Bind and Execute of a statement prepared long ago. What it does not
// follow are statements prepared in SQL with PREPARE, and COPY FROM STDIN by way
// of the extended protocol, which pgx does not use.
//
// It is safe for concurrent use.
type Proxy struct {
	inner *faultproxy.Proxy

	mu     sync.Mutex
	faults map[Kind]int // those of faults that can hit nothing more
	active []*Injected
}

// NewProxy starts a proxy for the server of a postgres:// URL, which has one host,
// on a free port of 127.0.0.1. It talks to the server without TLS. The error says
// what is wrong with the URL, or why there is no port.
func NewProxy(databaseURL string) (*Proxy, error) {
	inner, err := faultproxy.New(databaseURL)
	if err != nil {
		return nil, err
	}
	return &Proxy{inner: inner, faults: map[Kind]int{}}, nil
}

// URL is the server's URL by way of the proxy.
func (p *Proxy) URL() string { return p.inner.URL() }

// Close closes every connection and waits until all is at rest. What a fault holds
// is dropped.
func (p *Proxy) Close() { p.inner.Close() }

// Refuse makes the proxy reset every new connection, or take them again. Open ones
// go on.
func (p *Proxy) Refuse(refuse bool) { p.inner.Refuse(refuse) }

// CutAll resets the clients of all open connections and returns how many there
// were, CancelRequests on their way among them.
func (p *Proxy) CutAll() int { return p.inner.CutAll() }

// Inject makes a fault ready. Units of which a byte has passed are out of its
// reach. Of several faults that pick a unit, the first one injected has it.
// Inject panics at a Kind that does not exist, and at negative Bytes or Skip.
func (p *Proxy) Inject(f Fault) *Injected {
	injected := &Injected{kind: f.Kind, times: f.Times, armed: p.inner.Arm(f.onTheWire())}
	if f.Times == 0 {
		injected.times = 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retire() // or a campaign of a million faults would keep them all
	p.active = append(p.active, injected)
	return injected
}

// retire forgets the faults that have hit all that they may, but for their number.
func (p *Proxy) retire() {
	p.active = slices.DeleteFunc(p.active, func(i *Injected) bool {
		if n := i.Count(); n == i.times {
			p.faults[i.kind] += n
			return true
		}
		return false
	})
}

// Seen is what passed a proxy. What a client knows from an answer is counted by
// the time it has that answer.
type Seen struct {
	// Connections counts sessions, Cancels the CancelRequests that were passed on,
	// which are no sessions, and Refused what Refuse reset.
	Connections, Cancels, Refused int
	// Units counts what clients sent, RoundTrips how often they sent and waited for
	// all answers.
	Units, RoundTrips int
	// Commits counts units that carried a COMMIT, Committed the COMMITs that the
	// server has confirmed, whether the client heard of it or not.
	Commits, Committed int
	// Statements are the first 65,536 texts that clients had executed, those that a
	// fault kept from the server included.
	Statements []string
	// BytesToServer and BytesToClient count what was passed on.
	BytesToServer, BytesToClient int64
	// Faults counts the faults that were really applied.
	Faults map[Kind]int
}

// Seen returns what has passed since NewProxy.
func (p *Proxy) Seen() Seen {
	s := p.inner.Snapshot()
	seen := Seen{
		Connections: s.Connections, Cancels: s.Cancels, Refused: s.Refused,
		Units: s.Units, RoundTrips: s.RoundTrips, Commits: s.Commits, Committed: s.Committed,
		Statements: s.Statements, BytesToServer: s.BytesToServer, BytesToClient: s.BytesToClient,
		Faults: map[Kind]int{},
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(seen.Faults, p.faults)
	for _, injected := range p.active {
		if n := injected.Count(); n > 0 {
			seen.Faults[injected.kind] += n
		}
	}
	return seen
}

// watch has see look at every unit until stop is called. It is a fault that picks
// none.
func (p *Proxy) watch(see func(Unit)) (stop func()) {
	return p.inner.Arm(Fault{Kind: HoldRequest, At: func(u Unit) bool {
		see(u)
		return false
	}}.onTheWire()).Disarm
}

// Injected is a fault that waits for its unit, or has met it.
type Injected struct {
	kind  Kind
	times int
	armed *faultproxy.Armed
}

// Count returns how often the fault was really applied.
func (i *Injected) Count() int { return i.armed.Count() }

// Applied is closed when the fault was applied for the first time: when the unit
// or the answer is held or dropped, or the client has been cut off.
func (i *Injected) Applied() <-chan struct{} { return i.armed.Applied() }

// Wait waits for Applied. The error is the context's, and says that the fault was
// not applied.
func (i *Injected) Wait(ctx context.Context) error { return i.armed.Wait(ctx) }

// WaitSettled waits until what the first unit hit does in the database is final:
// the server has answered it, or the server process of its connection has ended.
func (i *Injected) WaitSettled(ctx context.Context) error { return i.armed.WaitSettled(ctx) }

// Release lets go what the fault holds, now and in the future.
func (i *Injected) Release() { i.armed.Release() }

// Disarm lets the fault hit no further unit. What it holds stays held.
func (i *Injected) Disarm() { i.armed.Disarm() }
