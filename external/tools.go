package external

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/table"
)

// Tools runs tools whose effects are outside of the database, and finds out what became of
// attempts that were cut off. It is safe for concurrent use. Make one beside each
// [dedup.Deduper], [Add] the tools, run [Tools.Recover] in every process, and [Tools.Close]
// it when the process ends.
type Tools struct {
	d    *dedup.Deduper
	pool *pgxpool.Pool
	opts Options
	// statements are for the engine of the pool's database, once it is known.
	statements atomic.Pointer[statements]
	trace      dedup.ExternalTracer // nil where nobody listens
	now        func() time.Time     // what leases end by

	// acts has what this process is doing for an operation, running all acts, those
	// included that have outlived their lease. base is the context of them, which outlive
	// their callers; it ends when Close gives up.
	mu      sync.Mutex
	tools   map[string]*definition
	acts    map[table.Identity]*act
	running map[*act]struct{}
	closed  bool
	base    context.Context
	stop    context.CancelFunc
}

// Options configure [Tools]. A nil *Options and every zero field mean the default.
type Options struct {
	// Lease is how long an attempt keeps others from acting, by the database's clock. It is
	// extended while Perform runs. A process that has died is succeeded after it. Default
	// 30 s, at least 100 ms, at most 24 hours.
	Lease time.Duration
	// Workers is how many operations of each tool [Tools.Recover] advances at a time: a tool whose
	// provider does not answer delays no other. Default 32.
	Workers int
	// Enqueue is called by [Handle.Accept] for an operation that is new, in the caller's
	// transaction, to put a job beside it that calls [Tools.Advance]. Default none: then
	// Recover finds it.
	Enqueue func(ctx context.Context, tx pgx.Tx, op Operation) error
}

// maxLease and maxSpan can be multiplied and added up: the longest pause is 2,880 leases.
const (
	maxLease = 24 * time.Hour
	maxSpan  = 365 * 24 * time.Hour
)

func (o *Options) resolve() (Options, error) {
	r := Options{}
	if o != nil {
		r = *o
	}
	if r.Lease == 0 {
		r.Lease = 30 * time.Second
	}
	if r.Workers == 0 {
		r.Workers = 32
	}
	switch {
	case r.Lease < 100*time.Millisecond || r.Lease > maxLease:
		return r, &dedup.InvalidError{What: "option", Field: "Lease", Reason: "must be between 100ms and 24h"}
	case r.Workers < 0:
		return r, &dedup.InvalidError{What: "option", Field: "Workers", Reason: "must not be negative"}
	}
	return r, nil
}

// New returns Tools that keep their operations in the tool_effect table beside d's
// tool_dedup. It sends nothing; call [Tools.Check] at start-up. Events go to d's Tracer,
// where that is a [dedup.ExternalTracer]. The error is an [dedup.ErrInvalid].
func New(d *dedup.Deduper, opts *Options) (*Tools, error) {
	if d == nil {
		return nil, &dedup.InvalidError{What: "option", Field: "d", Reason: "must come from dedup.New"}
	}
	resolved, err := opts.resolve()
	if err != nil {
		return nil, err
	}
	of := d.Options()
	x := &Tools{
		d: d, pool: d.Pool(), opts: resolved, now: time.Now,
		tools: map[string]*definition{}, acts: map[table.Identity]*act{}, running: map[*act]struct{}{},
	}
	x.statements.Store(newStatements(of.Schema, of.AsyncCommit, table.Profile{}))
	x.trace, _ = of.Tracer.(dedup.ExternalTracer)
	x.base, x.stop = context.WithCancel(context.Background())
	return x, nil
}

// sql are the statements for the engine of the pool's database.
func (x *Tools) sql() *statements { return x.statements.Load() }

// findEngine asks which engine that is, once in the life of x, before the first statement that
// depends on it.
func (x *Tools) findEngine(ctx context.Context, on examiner.Querier) error {
	if x.sql().known {
		return nil
	}
	engine, err := examiner.FindEngine(ctx, on)
	if err != nil {
		return err
	}
	of := x.d.Options()
	s := newStatements(of.Schema, of.AsyncCommit, table.ProfileOf(engine))
	s.known = true
	x.statements.Store(s)
	return nil
}

// Handle makes calls of one tool. [Add] returns it.
type Handle[In, Out any] struct {
	x *Tools
	t *definition
}

// Add registers a tool. Its error has all that is wrong with it, each an
// [dedup.ErrInvalid]. A name is taken once.
func Add[In, Out any](x *Tools, t Tool[In, Out]) (*Handle[In, Out], error) {
	var problems []error
	for _, p := range Problems(x, t) {
		problems = append(problems, p)
	}
	if problems != nil {
		return nil, errors.Join(problems...)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.tools[t.Name] != nil { // since it was looked at
		return nil, taken(t.Name)
	}
	x.tools[t.Name] = t.erase()
	return &Handle[In, Out]{x, x.tools[t.Name]}, nil
}

// Has reports whether a tool of that name was added.
func (x *Tools) Has(name string) bool { return x.tool(name) != nil }

// Deduper returns the Deduper that the Tools were made with.
func (x *Tools) Deduper() *dedup.Deduper { return x.d }

func (x *Tools) tool(name string) *definition {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tools[name]
}

// Close waits until nothing is being attempted any more. When ctx ends before that, the
// contexts of the attempts are cancelled, and what has become of those is found out by
// another process; the error is the context's then. Calls after Close are an
// [dedup.ErrInvalid].
func (x *Tools) Close(ctx context.Context) error {
	x.mu.Lock()
	x.closed = true
	open := slices.Collect(maps.Keys(x.running))
	x.mu.Unlock()
	defer x.stop()
	for _, a := range open {
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

// act is something that this process does for one operation.
type act struct {
	id table.Identity
	// over is closed when others need not wait for it any longer: after done, or before it
	// where an attempt has outlived its lease.
	over, done chan struct{}
	left       bool // over is closed; guarded by Tools.mu
	// The rest is set before done is closed. answered is true when the act has come to the
	// recorded answer.
	answered bool
	result   dedup.Result[json.RawMessage]
	err      error
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

var errClosed = &dedup.InvalidError{What: "call", Field: "Tools", Reason: "is closed"}

// open is nil until Close is called.
func (x *Tools) open() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return errClosed
	}
	return nil
}

// start runs do for an operation on a goroutine of its own, unless this process is at it
// already: then that act is returned. The first act of an operation is for a claim that has
// just been made, and an older one is that of an operation which is forgotten. ctx gives
// values, and not its end.
func (x *Tools) start(ctx context.Context, id table.Identity, first bool, do func(ctx context.Context, a *act)) (a *act, started bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if a := x.acts[id]; a != nil && !first {
		return a, false, nil
	}
	if x.closed {
		return nil, false, errClosed
	}
	a = &act{id: id, over: make(chan struct{}), done: make(chan struct{})}
	x.acts[id], x.running[a] = a, struct{}{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(x.base, cancel)
	go func() {
		defer func() {
			unlink()
			cancel()
			close(a.done) // before over: who waits for that finds the answer
			x.leave(a)
			x.mu.Lock()
			delete(x.running, a)
			x.mu.Unlock()
		}()
		// What panics here may know an answer that others are waiting for.
		if err := guarded(func() error { do(ctx, a); return nil }); err != nil {
			a.err = err
		}
	}()
	return a, true, nil
}

// leave lets others act for the operation, in this process as in any other.
func (x *Tools) leave(a *act) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.acts[a.id] == a {
		delete(x.acts, a.id)
	}
	if !a.left {
		a.left = true
		close(a.over)
	}
}

// at returns what this process does for an operation, nil where it does nothing.
func (x *Tools) at(id table.Identity) *act {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.acts[id]
}

func (x *Tools) event(ctx context.Context, step dedup.ExternalStep, r *row, ref, note string) {
	if x.trace == nil {
		return
	}
	x.trace.TraceExternal(ctx, dedup.ExternalData{
		CallData: dedup.CallData{Func: "external.Do", Scope: r.Scope, Tool: r.Tool, Key: r.Key, KeyHash: dedup.KeyHash(r.Key), Attrs: dedup.AttrsOf(ctx)},
		Step:     step, Fence: r.fence, Ref: ref, Note: note,
	})
}
