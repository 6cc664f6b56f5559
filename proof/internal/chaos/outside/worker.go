package outside

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
)

// Work calls the operations that in names until it ends, and recovers what is due. It is
// what a worker process does until it is killed.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	var h hello
	if !lines.Scan() {
		return fmt.Errorf("reading the first line: %w", lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
		return fmt.Errorf("reading the first line: %w", err)
	}
	a := armOf(h.Arm)
	if a == nil {
		return fmt.Errorf("there is no arm %q", h.Arm)
	}
	pool, err := lab.OpenPool(ctx, h.URL, int32(h.Conns), pgx.QueryExecModeCacheStatement)
	if err != nil {
		return err
	}
	defer pool.Close()
	p := &process{hello: h, arm: a, pool: pool, steps: newSteps(h, out), provider: newClient(h.Provider)}
	if err := p.open(); err != nil {
		return err
	}
	recovering, end := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { _ = p.tools.Recover(recovering) }) // an error is that it is closed
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			end()
			return fmt.Errorf("reading a line: %w", err)
		}
		if o.Go > 0 {
			p.steps.goOn(o.Go)
			continue
		}
		work.Go(func() { p.call(ctx, o.Op) })
	}
	end()
	work.Wait()
	closing, cancel := context.WithTimeout(ctx, leases(patience, h.Lease))
	defer cancel()
	return p.tools.Close(closing)
}

// process is a worker.
type process struct {
	hello
	arm      *arm
	pool     *pgxpool.Pool
	steps    *steps
	provider *client
	d        *dedup.Deduper
	tools    *external.Tools
	handles  map[string]*external.Handle[Charge, Charged]
}

func (p *process) open() (err error) {
	if p.d, err = dedup.New(p.pool, &dedup.Options{Tracer: p.steps}); err != nil {
		return err
	}
	if p.tools, err = external.New(p.d, &external.Options{Lease: p.Lease}); err != nil {
		return err
	}
	p.handles = map[string]*external.Handle[Charge, Charged]{}
	for _, name := range p.arm.tools() {
		if p.handles[name], err = external.Add(p.tools, p.tool(name)); err != nil {
			return err
		}
	}
	return nil
}

// call makes a call and reports what its caller was told.
func (p *process) call(ctx context.Context, op int) {
	ctx, cancel := context.WithTimeout(ctx, leases(patience, p.Lease))
	defer cancel()
	var id string
	var err error
	switch {
	case p.arm.control == leaseThenAgain:
		id, err = p.lease(ctx, op)
	case p.arm.saga:
		err = p.saga(ctx, op)
	default:
		id, err = p.outside(ctx, p.arm.name, op)
	}
	p.steps.at("returned")
	r := report{Op: op, ID: id, Outcome: outcomeOf(err)}
	if err != nil {
		r.Error = err.Error()
	}
	p.steps.report(r)
}

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return happened
	case errors.As(err, new(*external.UndoneError)):
		return undone
	case errors.Is(err, dedup.ErrRefused):
		return refused
	case errors.As(err, new(*external.ParkedError)):
		return parked
	}
	for _, never := range [...]error{dedup.ErrInvalid, dedup.ErrKeyReused, dedup.ErrExpired, dedup.ErrBroken, dedup.ErrSchema} {
		if errors.Is(err, never) {
			return unnamed
		}
	}
	return unsettled
}

func callOf(op int) dedup.Call { return dedup.Call{Scope: scope, Key: fmt.Sprint(op)} }

const scope = "chaos"

func (p *process) outside(ctx context.Context, tool string, op int) (string, error) {
	r, err := p.handles[tool].Do(ctx, callOf(op), Charge{op})
	return r.Value.ID, err
}

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
