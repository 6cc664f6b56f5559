package external

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
)

// act is the work of this process on one operation: an attempt, a look-up, or a verdict.
type act struct {
	// done is closed when the act has ended. over is closed when calls need not wait for it any
	// longer: at the same time, or earlier if an attempt outlives its lease.
	over, done chan struct{}
	leave      func() // closes over and lets this process start another act on the operation
	// These three are set before done is closed. answered is true if result or err is the recorded
	// answer.
	answered bool
	result   dedup.Result[json.RawMessage]
	err      error
	// abandoned counts the look-ups that still run because they ignore their context.
	abandoned sync.WaitGroup
}

// isDone reports whether answered, result and err may be read.
func (a *act) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// acts are the acts of this process.
type acts struct {
	mu sync.Mutex
	// byID maps an operation to its act. running has all acts, also those that have outlived their
	// lease.
	byID    map[table.Identity]*act
	running map[*act]struct{}
	closed  bool
	// base is the context of all acts, because an act outlives the call that started it. It ends
	// when close gives up.
	base context.Context //nolint:containedctx // an act outlives its caller
	stop context.CancelFunc
}

func newActs() *acts {
	s := &acts{byID: map[table.Identity]*act{}, running: map[*act]struct{}{}}
	s.base, s.stop = context.WithCancel(context.Background())
	return s
}

// start runs do for an operation on a new goroutine. If the operation has an act, start returns
// that instead. If first is true, the row was just inserted: an older act belongs to a forgotten
// operation and is replaced. The act gets ctx's values, but not its end.
func (s *acts) start(
	ctx context.Context, id table.Identity, first bool, do func(ctx context.Context, a *act),
) (a *act, started bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.byID[id]; a != nil && !first {
		return a, false, nil
	}
	if s.closed {
		return nil, false, errClosed
	}
	a = &act{over: make(chan struct{}), done: make(chan struct{})}
	a.leave = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.byID[id] == a {
			delete(s.byID, id)
		}
		close(a.over)
	})
	s.byID[id], s.running[a] = a, struct{}{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(s.base, cancel)
	go func() {
		defer func() { // runs after a runtime.Goexit too
			unlink()
			cancel()
			close(a.done) // before over, so that a waiting call finds the answer
			a.leave()
			s.mu.Lock()
			delete(s.running, a)
			s.mu.Unlock()
		}()
		// A panic must not end the process: the act may hold an answer that calls wait for.
		if err := guarded(func() error { do(ctx, a); return nil }); err != nil {
			a.err = err
		}
	}()
	return a, true, nil
}

// get returns the operation's act in this process, nil if there is none.
func (s *acts) get(id table.Identity) *act {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

func (s *acts) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close stops new acts from starting and waits for the running ones. If ctx ends first, it cancels
// them.
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
		if a.isDone() { // its goroutine is about to end
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
