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

// instance is what a process of the tool's user would have.
type instance struct {
	pool  *pgxpool.Pool
	tools *external.Tools
	steps *steps
	do    doing
}

func (o *outside) start(ctx context.Context, url string) (p *instance, err error) {
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
		_ = p.tools.Close(ctx) // what still runs has failed its case
	}
	if p.pool != nil {
		p.pool.Close()
	}
}

// told is what a caller was told.
type told struct {
	text, ref string
	err       error
}

// call makes a call that waits for an attempt of its own, and for nobody else's.
func (p *instance) call(ctx context.Context, call dedup.Call, n int) (r told) {
	call.MaxWait = -1
	return p.wait(ctx, call, n)
}

// wait makes a call that waits as production's do.
func (p *instance) wait(ctx context.Context, call dedup.Call, n int) (r told) {
	ctx, cancel := context.WithTimeout(ctx, defaultPatience)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			r = told{err: &panicError{value}}
		}
	}()
	r.text, r.ref, r.err = p.do(ctx, call, n)
	return r
}

// steps counts the attempts of a process, and ends it or has it stand still at a step.
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

// sent returns how many attempts there were.
func (s *steps) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts
}

// dieAt ends the goroutine of the next step of a kind, as the death of the process would. It reports
// afterwards whether that step came. A panic would not do: a tracer's panics are logged and passed over.
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

// haltAt has the process stand still at the next step of a kind, until it is let go.
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
