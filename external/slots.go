package external

import (
	"context"
	"sync"
	"time"
)

// slots are those of Recover: so many for each tool.
type slots struct {
	most  int
	taken sync.WaitGroup
	freed chan struct{} // has one when a slot of a tool is free that has more to do

	mu   sync.Mutex
	by   map[string]int
	more map[string]bool // the tool had more that was due than slots
}

func newSlots(most int) *slots {
	return &slots{most: most, freed: make(chan struct{}, 1), by: map[string]int{}, more: map[string]bool{}}
}

// left is how many slots a tool has left.
func (s *slots) left(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most - s.by[tool]
}

// hasMore notes whether a tool has more to do than was asked for.
func (s *slots) hasMore(tool string, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more[tool] = more
}

func (s *slots) take(tool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken.Add(1)
	s.by[tool]++
}

func (s *slots) free(tool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[tool]--
	s.taken.Done()
	if s.more[tool] {
		select {
		case s.freed <- struct{}{}:
		default:
		}
	}
}

// wait waits for so long, or until a tool that has more to do has slots for it again.
func (s *slots) wait(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	select {
	case <-s.freed:
		_ = pause(ctx, refillAfter)
	case <-ctx.Done():
	}
}
