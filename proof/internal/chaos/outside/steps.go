package outside

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// steps is the tracer that has the process killed and halted at the steps of an operation.
type steps struct {
	kill, pause float64

	mu      sync.Mutex
	out     *json.Encoder
	rng     *rand.Rand
	asked   int
	waiting map[int]chan struct{}
	claimed map[operation]claim
}

type operation struct{ tool, key string }

// claim is the last attempt at an operation, and when it was claimed.
type claim struct {
	fence int64
	at    time.Time
}

func newSteps(h hello, out io.Writer) *steps {
	return &steps{
		kill: h.Kill, pause: h.Pause, out: json.NewEncoder(out), rng: rand.New(rand.NewPCG(h.Seed, 7)),
		waiting: map[int]chan struct{}{}, claimed: map[operation]claim{},
	}
}

func (*steps) TraceCallStart(ctx context.Context, _ dedup.CallData) context.Context { return ctx }

func (*steps) TraceCallEnd(context.Context, dedup.CallEndData) {}

func (s *steps) TraceEvent(_ context.Context, event dedup.Event) {
	e, ok := event.(external.Event)
	if !ok {
		return
	}
	of := operation{e.Tool, e.Key}
	switch e.Kind {
	case external.EventClaimed:
		s.mu.Lock()
		s.claimed[of] = claim{e.Fence, time.Now()}
		s.mu.Unlock()
	case external.EventAnswered:
		s.mu.Lock()
		if s.claimed[of].fence == e.Fence {
			delete(s.claimed, of)
		}
		s.mu.Unlock()
	case external.EventReleased, external.EventResent, external.EventFound, external.EventUnknown,
		external.EventParked, external.EventTwice, external.EventFenced:
		s.report(report{Step: e.Kind})
	}
	s.at(e.Kind)
}

// claimedAt is when an attempt was claimed, by a clock that was read before its lease was
// checked for the last time.
func (s *steps) claimedAt(tool string, a external.Attempt) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimed[operation{tool, a.CallKey}].at
}

// at asks to be killed or halted, now and then, and waits for it.
func (s *steps) at(step external.EventKind) {
	s.mu.Lock()
	drawn := s.rng.Float64()
	pause := s.pause
	if step == external.EventSending {
		pause *= sendingShare
	}
	r := report{Step: step}
	switch {
	case drawn < s.kill:
		r.Ask = askKill
	case drawn < s.kill+pause:
		r.Ask = askPause
	default:
		s.mu.Unlock()
		return
	}
	s.asked++
	r.N = s.asked
	over := make(chan struct{})
	s.waiting[r.N] = over
	_ = s.out.Encode(r)
	s.mu.Unlock()
	<-over
}

// goOn ends the wait of an ask.
func (s *steps) goOn(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if over, ok := s.waiting[n]; ok {
		delete(s.waiting, n)
		close(over)
	}
}

func (s *steps) report(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(r) // nobody listens any more: the end is near
}
