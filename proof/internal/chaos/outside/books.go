package outside

import (
	"fmt"
	"sync"

	"github.com/tooldedup/dedup/external"
)

// books are what an arm's callers were told, and what was done to its workers.
type books struct {
	mu     sync.Mutex
	told   map[int]told
	calls  int
	steps  map[external.EventKind]int
	kills  map[external.EventKind]int
	pauses map[external.EventKind]int
	errs   []string // that no call may get
}

// told is what callers were told of an operation.
type told struct {
	outcome outcome // of the first answer
	id      string
	differs bool // a later one was another
}

func newBooks() *books {
	return &books{
		told: map[int]told{}, steps: map[external.EventKind]int{},
		kills: map[external.EventKind]int{}, pauses: map[external.EventKind]int{},
	}
}

// answered notes an answer. That an operation is parked may change.
func (b *books) answered(r report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	switch r.Outcome {
	case happened, refused, undone:
		first, ok := b.told[r.Op]
		if !ok {
			first = told{outcome: r.Outcome, id: r.ID}
		}
		first.differs = first.differs || first.outcome != r.Outcome || first.id != r.ID
		b.told[r.Op] = first
	case unnamed:
		b.errs = append(b.errs, fmt.Sprintf("operation %d: %s", r.Op, r.Error))
	}
}

func (b *books) count(in map[external.EventKind]int, step external.EventKind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in[step]++
}
