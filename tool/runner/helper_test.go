package runner_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool/runner"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fakeClock passes the time that is waited for at once, and remembers it. While
// it is stuck, nothing passes, and each wait is told on waiting.
type fakeClock struct {
	mu      sync.Mutex
	now     time.Time
	waited  []time.Duration
	stuck   bool
	waiting chan time.Duration
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Now().Add(24 * time.Hour), waiting: make(chan time.Duration, 100)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited = append(c.waited, d)
	c.waiting <- d
	passed := make(chan time.Time, 1)
	if !c.stuck {
		c.now = c.now.Add(d)
		passed <- c.now
	}
	return passed
}

// longest draws the longest pause that there may be.
func longest(n int64) int64 { return n - 1 }

// bundle is a Runner with everything injected, and what was seen of it.
type bundle struct {
	*runner.Runner
	clock  *fakeClock
	events []runner.Event
}

func setup() *bundle {
	b := &bundle{clock: newFakeClock()}
	b.Runner = &runner.Runner{Clock: b.clock, Rand: longest,
		OnRetry: func(_ context.Context, e runner.Event) { b.events = append(b.events, e) }}
	return b
}

// script is a try that fails with each of the errors in turn, and then answers.
type script struct {
	errs []error
	keys []string // that the tries were given, and found in their contexts
	ctx  []string
}

func failing(errs ...error) *script { return &script{errs: errs} }

func (s *script) try(ctx context.Context, t runner.Try) (string, error) {
	carried, _ := runner.KeyFrom(ctx)
	s.keys, s.ctx = append(s.keys, t.Key), append(s.ctx, carried)
	if t.Number != len(s.keys) {
		return "", errors.New("the tries are numbered wrong")
	}
	if t.Number <= len(s.errs) && s.errs[t.Number-1] != nil {
		return "", s.errs[t.Number-1]
	}
	return "answer", nil
}

var errBusy = &runner.StatusError{Code: 503}
