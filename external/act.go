package external

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
)

// act is something that this process does for one operation.
type act struct {
	// done is closed when the act has ended, and over when others need not wait for it any longer: then, or
	// before it where an attempt has outlived its lease.
	over, done chan struct{}
	leave      func() // closes over, and lets others act for the operation, in this process as in any other
	// The rest is set before done is closed. answered is true when the act has come to the
	// recorded answer.
	answered bool
	result   dedup.Result[json.RawMessage]
	err      error
	// behind are the look-ups that were left behind, because they did not heed their context.
	behind sync.WaitGroup
}

// isDone reports whether the rest may be read.
func (a *act) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// acts are those of this process.
type acts struct {
	mu sync.Mutex
	// by has what is being done for an operation, running all acts, those included that have outlived their
	// lease.
	by      map[table.Identity]*act
	running map[*act]struct{}
	closed  bool
	// base is the context of acts, which outlive their callers; it ends when close gives up.
	base context.Context //nolint:containedctx // acts have no caller
	stop context.CancelFunc
}

func newActs() *acts {
	s := &acts{by: map[table.Identity]*act{}, running: map[*act]struct{}{}}
	s.base, s.stop = context.WithCancel(context.Background())
	return s
}

// start runs do for an operation on a goroutine of its own, unless this process is at it
// already: then that act is returned. The first act of an operation is for a claim that has
// just been made, and an older one is that of an operation which is forgotten. ctx gives
// values, and not its end.
func (s *acts) start(
	ctx context.Context, id table.Identity, first bool, do func(ctx context.Context, a *act),
) (a *act, started bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.by[id]; a != nil && !first {
		return a, false, nil
	}
	if s.closed {
		return nil, false, errClosed
	}
	a = &act{over: make(chan struct{}), done: make(chan struct{})}
	a.leave = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.by[id] == a {
			delete(s.by, id)
		}
		close(a.over)
	})
	s.by[id], s.running[a] = a, struct{}{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(s.base, cancel)
	go func() {
		defer func() { // past a runtime.Goexit too
			unlink()
			cancel()
			close(a.done) // before over: who waits for that finds the answer
			a.leave()
			s.mu.Lock()
			delete(s.running, a)
			s.mu.Unlock()
		}()
		// What panics here may know an answer that others are waiting for.
		if err := guarded(func() error { do(ctx, a); return nil }); err != nil {
			a.err = err
		}
	}()
	return a, true, nil
}

// at returns what this process does for an operation, nil where it does nothing.
func (s *acts) at(id table.Identity) *act {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[id]
}

func (s *acts) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close lets nothing begin any more, and waits for what runs.
func (s *acts) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var running []*act
	for a := range s.running {
		running = append(running, a)
	}
	s.mu.Unlock()
	defer s.stop()
	for _, a := range running {
		if a.isDone() { // and on its way out
			continue
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
