package deduptest

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// instance stands for one process of the tool.
type instance struct {
	pool  *pgxpool.Pool
	tools *external.Tools
	steps *steps
	do    callFunc
}

func (o *untypedEffect) start(ctx context.Context, url string) (p *instance, err error) {
	p = &instance{steps: &steps{}}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.pool, err = pgxpool.New(ctx, url); err != nil {
		return p, fmt.Errorf("opening a pool: %w", err)
	}
	var options dedup.Options
	if o.options != nil {
		options = *o.options
	}
	options.Tracer = dedup.MultiTracer(options.Tracer, p.steps)
	d, err := dedup.New(p.pool, &options)
	if err != nil {
		return p, fmt.Errorf("Effect.Options: %w", err)
	}
	if p.tools, err = external.New(d, &external.Options{Lease: o.lease}); err != nil {
		return p, fmt.Errorf("Effect.Lease: %w", err)
	}
	p.do, err = o.add(p.tools)
	return p, err
}

func (p *instance) close() {
	if p.tools != nil {
		ctx, cancel := context.WithTimeout(context.Background(), defaultPatience)
		defer cancel()
		_ = p.tools.Close(ctx) // a call that still runs has failed its case
	}
	if p.pool != nil {
		p.pool.Close()
	}
}

// callResult is the result of a call for its caller.
type callResult struct {
	text, ref string
	err       error
}

// call makes a call that waits for its own attempt only.
func (p *instance) call(ctx context.Context, call dedup.Call, n int) (r callResult) {
	call.MaxWait = -1
	return p.wait(ctx, call, n)
}

// wait makes a call that waits as in production.
func (p *instance) wait(ctx context.Context, call dedup.Call, n int) (r callResult) {
	ctx, cancel := context.WithTimeout(ctx, defaultPatience)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			r = callResult{err: &panicError{value}}
		}
	}()
	r.text, r.ref, r.err = p.do(ctx, call, n)
	return r
}

// steps counts the attempts of a process. It can end or halt the process at a step.
type steps struct {
	mu       sync.Mutex
	attempts int
	at       external.EventKind // "" for none
	act      func()
}

func (*steps) TraceCallStart(ctx context.Context, _ dedup.CallData) context.Context { return ctx }

func (*steps) TraceCallEnd(context.Context, dedup.CallEndData) {}

func (s *steps) TraceEvent(_ context.Context, event dedup.Event) {
	e, ok := event.(external.Event)
	if !ok {
		return
	}
	s.mu.Lock()
	if e.Kind == external.EventSending {
		s.attempts++
	}
	act := s.act
	if s.at != e.Kind {
		act = nil
	} else {
		s.at, s.act = "", nil
	}
	s.mu.Unlock()
	if act != nil {
		act()
	}
}

func (s *steps) set(at external.EventKind, act func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.act = at, act
}

// sent returns the number of attempts.
func (s *steps) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts
}

// dieAt ends the goroutine at the next step of a kind, as the death of its process would. The
// returned function reports whether the step came. A panic would not work: panics of a tracer are
// logged and ignored.
func (s *steps) dieAt(step external.EventKind) (came func() bool) {
	died := false
	s.set(step, func() {
		s.mu.Lock()
		died = true
		s.mu.Unlock()
		runtime.Goexit()
	})
	return func() bool {
		s.set("", nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		return died
	}
}

// haltAt stops the goroutine at the next step of a kind, until letGo is called.
func (s *steps) haltAt(step external.EventKind) (halted <-chan struct{}, letGo func()) {
	reached, over := make(chan struct{}), make(chan struct{})
	s.set(step, func() {
		close(reached)
		<-over
	})
	return reached, sync.OnceFunc(func() {
		s.set("", nil)
		close(over)
	})
}
