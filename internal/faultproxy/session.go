package faultproxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// blockSize is the size of one read.
const blockSize = 64 << 10

// session is one connection from its start-up packet on. One goroutine passes requests on
// (request.go), and another one answers (answer.go).
type session struct {
	*link
	proxy *Proxy

	mu        sync.Mutex
	shots     []*shot   // every fault that was taken for this session
	pending   []pending // units delivered and not yet answered, oldest first
	discard   bool      // the client gets no more answers
	afterGone *shot     // applied when the server has gone

	backend    atomic.Int32  // the process id of the server process
	ended      chan struct{} // closed when the server has gone
	clientLeft signal        // fired when the client sends no more

	requests requests
	answers  answers
}

// pending is a unit that awaits its answer, and the answer's fault or nil.
type pending struct {
	startup bool
	shot    *shot
}

func newSession(p *Proxy, l *link, conn int) *session {
	s := &session{link: l, proxy: p, ended: make(chan struct{}), clientLeft: newSignal()}
	s.requests.tracker = newTracker(conn)
	return s
}

// run passes bytes on until both sides are finished. The server always reads everything that was
// delivered to it: only the stream towards it is closed, and the session waits until the server
// closes the other one.
func (s *session) run(startup []byte) {
	var answering sync.WaitGroup
	answering.Go(func() {
		defer close(s.ended)
		s.passAnswers()
	})
	s.passRequests(startup)
	s.clientLeft.fire()
	_ = s.server.CloseWrite()
	answering.Wait()
	for _, shot := range s.shots {
		shot.end()
	}
}

func (s *session) take(u Unit) *shot {
	shot := s.proxy.armory.take(u)
	if shot != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shots = append(s.shots, shot)
	}
	return shot
}

// expect queues a unit before its last bytes are delivered.
func (s *session) expect(p pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, p)
}

// discardAnswers drops all further answers. after, unless nil, is applied when the server has gone.
func (s *session) discardAnswers(after *shot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discard = true
	if after != nil {
		s.afterGone = after
	}
}

// hold waits for the release of a shot and returns true. It returns false if one of the others, or
// the end of the proxy, comes first.
func (s *session) hold(shot *shot, others ...<-chan struct{}) bool {
	a := shot.armed
	var late <-chan time.Time
	if a.fault.Delay > 0 {
		timer := time.NewTimer(a.fault.Delay)
		defer timer.Stop()
		late = timer.C
	}
	others = append(others, nil, nil)[:2] // a nil channel blocks for ever
	select {
	case <-a.release.c:
		return true
	case <-late:
		return true
	case <-others[0]:
	case <-others[1]:
	case <-s.proxy.ctx.Done():
	}
	return false
}

func (s *session) count(change func(*Snapshot)) { s.proxy.ledger.count(change) }
