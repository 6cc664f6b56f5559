package external

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Tools runs tools whose effects are outside the database, and finds out the outcome of attempts
// that were interrupted. It is safe for concurrent use. Make one beside each [dedup.Deduper], [Add]
// the tools, run [Tools.Recover] in every process, and call [Tools.Close] when the process ends.
type Tools struct {
	d        *dedup.Deduper
	pool     *pgxpool.Pool
	database string // names the pool's database
	opts     Options
	sql      *statements
	profile  atomic.Pointer[table.Profile] // nil until engine has asked the server
	trace    dedup.Tracer                  // nil if there is none
	now      func() time.Time              // the clock of leases

	acts *acts

	mu    sync.Mutex
	tools map[string]*definition
}

// Options configure [Tools]. A nil *Options and every zero field mean the default.
type Options struct {
	// Lease is how long an attempt keeps other processes from acting, by the database's clock. It
	// is extended while Perform runs. If a process dies, another one may act after Lease. Default:
	// 30 s, at least 100 ms, at most 24 hours.
	Lease time.Duration
	// Workers is how many operations of each tool [Tools.Recover] advances at a time, so that a
	// slow provider does not delay other tools. At most half of them are parked. A Perform or Find
	// that goes on after its context has ended still counts. Default: 32.
	Workers int
	// Enqueue is called by [Handle.Accept] for a new operation, in the caller's transaction. It
	// inserts a job that calls [Tools.Advance]. Default: none; Recover finds the operation.
	Enqueue func(ctx context.Context, tx pgx.Tx, op Operation) error
}

// Durations up to maxLease and maxSpan cannot overflow: the longest pause is 2,880 leases.
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

// New returns Tools that keep their operations in the tool_effect table beside d's tool_dedup. It
// does not connect; call migrations.Check at start-up. Every step is an [Event] for d's Tracer. The
// error is a [dedup.ErrInvalid].
func New(d *dedup.Deduper, opts *Options) (*Tools, error) {
	if d == nil {
		return nil, &dedup.InvalidError{What: "option", Field: "d", Missing: true, Reason: "must come from dedup.New"}
	}
	resolved, err := opts.resolve()
	if err != nil {
		return nil, err
	}
	of, pool := d.Options(), d.Pool()
	x := &Tools{
		d: d, pool: pool, database: wire.DatabaseOf(pool.Config().ConnConfig), opts: resolved, sql: newStatements(of.Schema), now: time.Now,
		tools: map[string]*definition{}, acts: newActs(),
	}
	x.trace = of.Tracer
	return x, nil
}

// engine returns the profile of the server's engine. It asks the server once.
func (x *Tools) engine(ctx context.Context, on examiner.Querier) (*table.Profile, error) {
	if known := x.profile.Load(); known != nil {
		return known, nil
	}
	engine, err := examiner.FindEngine(ctx, on)
	if err != nil {
		return nil, err
	}
	profile := table.ProfileOf(engine)
	x.profile.Store(&profile)
	return &profile, nil
}

// Handle makes calls of one tool. [Add] returns it.
type Handle[In, Out any] struct {
	x *Tools
	t *definition
}

// Add registers a tool. A name can be added once. The error joins all problems of the tool, each an
// [dedup.ErrInvalid].
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
	if x.tools[t.Name] != nil { // added concurrently since Problems
		return nil, taken(t.Name)
	}
	x.tools[t.Name] = t.erase()
	return &Handle[In, Out]{x, x.tools[t.Name]}, nil
}

// Has reports whether a tool of that name was added.
func (x *Tools) Has(name string) bool { return x.tool(name) != nil }

// Out returns the type of a tool's results, nil if no tool of that name was added.
func (x *Tools) Out(name string) reflect.Type {
	if t := x.tool(name); t != nil {
		return t.out
	}
	return nil
}

// Deduper returns the Deduper that was passed to New.
func (x *Tools) Deduper() *dedup.Deduper { return x.d }

func (x *Tools) tool(name string) *definition {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tools[name]
}

// Close waits until no attempt is running. If ctx ends first, Close cancels the attempts and
// returns the context's error; another process finds out their outcomes. Calls after Close return
// [dedup.ErrInvalid].
func (x *Tools) Close(ctx context.Context) error { return x.acts.close(ctx) }

var (
	errClosed = &dedup.InvalidError{What: "call", Field: "Tools", Reason: "is closed"}
	errInside = &dedup.InvalidError{What: "call", Field: "ctx", Reason: "is an effect's; inside an effect use Accept with its transaction"}
)

// usable returns an error after Close and inside an effect of package dedup.
func (x *Tools) usable(ctx context.Context) error {
	switch {
	case x.acts.isClosed():
		return errClosed
	case guard.Inside(ctx):
		return errInside
	}
	return nil
}

func unregistered() error {
	return &dedup.InvalidError{What: "call", Field: "Tool", Reason: "is not registered here"}
}
