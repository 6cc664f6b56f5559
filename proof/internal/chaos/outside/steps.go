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
	claimed map[attempt]time.Time
}

type attempt struct {
	tool, key string
	fence     int64
}

func newSteps(h hello, out io.Writer) *steps {
	return &steps{
		kill: h.Kill, pause: h.Pause, out: json.NewEncoder(out), rng: rand.New(rand.NewPCG(h.Seed, 7)),
		waiting: map[int]chan struct{}{}, claimed: map[attempt]time.Time{},
	}
}

// TraceExternal implements dedup.ExternalTracer.
func (s *steps) TraceExternal(_ context.Context, data dedup.ExternalData) {
	of := attempt{data.Tool, data.Key, data.Fence}
	switch data.Step {
	case dedup.ExternalClaimed:
		s.mu.Lock()
		s.claimed[of] = time.Now()
		s.mu.Unlock()
	case dedup.ExternalAnswered:
		s.mu.Lock()
		delete(s.claimed, of)
		s.mu.Unlock()
	case dedup.ExternalReleased, dedup.ExternalResent, dedup.ExternalFound, dedup.ExternalUnknown,
		dedup.ExternalParked, dedup.ExternalTwice, dedup.ExternalFenced:
		s.report(report{Step: data.Step})
	}
	s.at(data.Step)
}

// claimedAt is when an attempt was claimed, by a clock that was read before its lease was
// checked for the last time.
func (s *steps) claimedAt(tool string, a external.Attempt) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimed[attempt{tool, a.CallKey, a.Fence}]
}

// at asks to be killed or halted, now and then, and waits for it.
func (s *steps) at(step dedup.ExternalStep) {
	s.mu.Lock()
	drawn := s.rng.Float64()
	pause := s.pause
	if step == dedup.ExternalSending {
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
