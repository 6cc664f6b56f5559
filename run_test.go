package dedup

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// TestRetryBound: the longest pause doubles with each attempt, up to MaxDelay.
func TestRetryBound(t *testing.T) {
	t.Parallel()

	p := RetryPolicy{BaseDelay: 10 * time.Millisecond, MaxDelay: 70 * time.Millisecond}
	for attempt, want := range []time.Duration{10, 20, 40, 70, 70} {
		require.Equal(t, want*time.Millisecond, p.longestPause(attempt+1), "attempt %d", attempt+1)
	}
	require.Equal(t, p.MaxDelay, p.longestPause(1_000), "and does not overflow")
	p.MaxDelay = 40 * time.Millisecond
	require.Equal(t, p.MaxDelay, p.longestPause(3))
}

// TestEnded: whatever ends the attempts after a lost COMMIT, its outcome is open,
// and the fault that hid it is named once.
func TestEnded(t *testing.T) {
	t.Parallel()

	lost, later := errors.New("connection reset"), errors.New("no connection left")
	require.Equal(t, later, new(group).ended(later))

	g := &group{doubt: doubt{err: lost}, attempts: 3}
	require.Equal(t, &Error{Answer: ErrOutcomeUnknown, Attempts: 3, Err: fmt.Errorf("%w (%w)", lost, later)}, g.ended(later))
	require.Equal(t, &Error{Answer: ErrOutcomeUnknown, Attempts: 3, Err: lost}, g.ended(lost))
}

// TestStates holds the table of states in docs/design.md to the code: every state has one
// row, no row is left over, and each row names exactly the steps that verdicts in this
// state lead to.
func TestStates(t *testing.T) {
	t.Parallel()
	names, steps := constants(t, "tx.go", "state"), constants(t, "run.go", "step")
	rows := designStates(t)
	taken := map[string]map[string]bool{}
	for _, name := range names {
		require.Contains(t, rows, name, "docs/design.md has no row for this state")
		taken[name] = map[string]bool{}
	}
	for name := range rows {
		require.Contains(t, names, name, "docs/design.md has a row for a state that there is not")
	}

	pool := pgtest.New(t).Pool(t)
	for name, c := range nextCases() {
		from, _, _ := strings.Cut(name, "/")
		require.Contains(t, names, from)
		f := newStateFixture(t, pool, name)
		if c.given != nil {
			c.given(t, f)
		}
		v := verdict{state: state(slices.Index(names, from)), bad: f.c, calls: f.g.calls, err: c.err}
		next, bad, err := f.g.next(f.ctx, f.g.calls, v)
		require.Equal(t, "step"+c.next, steps[next], "%s: %v", name, err)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, name)
		} else {
			require.NoError(t, err, name)
		}
		if next == stepFailed {
			require.Same(t, f.c, bad, "%s: the failure is the call's", name)
		}
		if c.then != nil {
			c.then(t, f)
		}
		taken[from][strings.ToLower(c.next)] = true
	}
	for name, want := range rows {
		var got []string
		for step := range taken[name] {
			got = append(got, step)
		}
		require.ElementsMatch(t, want, got, "the row of %s names other steps than the code takes", name)
	}
}

// nextCase is one verdict, and what comes after it.
type nextCase struct {
	given func(*testing.T, *stateFixture)
	err   error
	next  string // a step's name, without its prefix
	is    error
	then  func(*testing.T, *stateFixture)
}

// nextCases are verdicts by their state, with a name behind it where there are several.
func nextCases() map[string]nextCase {
	fault := errors.New("a fault")
	inTheWay := &pgconn.PgError{Code: wire.CodeUniqueViolation}
	settled := func(t *testing.T, f *stateFixture) {
		t.Helper()
		require.NoError(t, f.c.err)
		require.True(t, f.c.settled())
		require.False(t, f.c.executed)
	}
	open := func(t *testing.T, f *stateFixture) { t.Helper(); require.False(t, f.c.settled()) }
	return map[string]nextCase{
		"committed": {
			given: func(_ *testing.T, f *stateFixture) {
				f.c.written = table.NewRecord(&f.c.Entry, table.Done, "1")
				f.c.written.CreatedAt = time.Now()
			},
			next: "Settled",
			then: func(t *testing.T, f *stateFixture) {
				t.Helper()
				require.NoError(t, f.c.err)
				require.True(t, f.c.executed)
			},
		},
		"committed/without a record": {next: "Settled", then: func(t *testing.T, f *stateFixture) {
			t.Helper()
			require.ErrorIs(t, f.c.err, ErrBroken)
			require.Equal(t, StateBroken, f.stored(t))
		}},
		"found": {next: "Again"},
		"busy":  {next: "Again", then: open},
		"busy/answered meanwhile": {
			given: func(t *testing.T, f *stateFixture) { t.Helper(); f.record(t) },
			next:  "Again", then: settled,
		},
		"busy/waited long enough": {given: spend, next: "Failed", is: ErrInFlight},
		"busy/the look fails":     {given: cutOff, next: "Fault", is: errUnreachable},
		"busy/somebody who is no twin has the row": {
			given: spend, err: fault, next: "Fault", is: fault,
		},
		"held":                    {next: "Again", then: open},
		"held/waited long enough": {given: spend, next: "Failed", is: ErrInFlight},
		"held/the look fails":     {given: cutOff, next: "Fault", is: errUnreachable},
		"retry":                   {err: fault, next: "Fault", is: fault},
		"conflicted":              {err: fault, next: "Fault", is: fault},
		"conflicted/too often": {
			given: func(_ *testing.T, f *stateFixture) { f.c.conflicts = maxConflicts },
			err:   fault, next: "Failed", is: ErrSchema,
		},
		"unknown": {err: fault, next: "Fault", is: fault, then: func(t *testing.T, f *stateFixture) {
			t.Helper()
			require.ErrorIs(t, f.g.exhaust(&exhaustion{err: fault}), ErrOutcomeUnknown)
		}},
		"refused": {err: fault, next: "Again", then: func(t *testing.T, f *stateFixture) {
			t.Helper()
			require.Equal(t, table.Refused, f.c.out, "the next attempt records the refusal")
			open(t, f)
		}},
		"refused/together": {
			given: func(_ *testing.T, f *stateFixture) { f.g.together = &together{calls: f.g.calls} },
			err:   fault, next: "Failed", is: fault,
		},
		"broken": {err: errTxEnded, next: "Failed", is: ErrBroken, then: func(t *testing.T, f *stateFixture) {
			t.Helper()
			require.Equal(t, StateBroken, f.stored(t))
		}},
		"broken/the record itself": {
			given: func(_ *testing.T, f *stateFixture) { f.c.out = table.Broken },
			err:   errTxEnded, next: "Failed", is: errTxEnded,
			then: func(t *testing.T, f *stateFixture) { t.Helper(); require.Equal(t, StateNotFound, f.stored(t)) },
		},
		"failed": {err: fault, next: "Failed", is: fault},
		"undone": {err: fault, next: "Again", then: open},
		"undone/by a record": {
			given: func(t *testing.T, f *stateFixture) { t.Helper(); f.record(t) },
			err:   inTheWay, next: "Again", then: settled,
		},
		"undone/by nobody who is still there": {err: inTheWay, next: "Again", then: open},
		"undone/by a twin in flight": {
			given: func(t *testing.T, f *stateFixture) { t.Helper(); f.lock(t); spend(t, f) },
			err:   inTheWay, next: "Failed", is: ErrInFlight,
		},
		"again": {next: "Again", then: open},
	}
}

// errUnreachable is the error of whoever dials after cutOff.
var errUnreachable = errors.New("the server is unreachable")

// stateFixture is a group of one call that has had an attempt.
type stateFixture struct {
	ctx  context.Context
	pool *pgxpool.Pool
	g    *group
	c    *call
}

func newStateFixture(t *testing.T, pool *pgxpool.Pool, key string) *stateFixture {
	t.Helper()
	d, err := New(pool, nil)
	require.NoError(t, err)
	ctx := t.Context()
	call := Call{Scope: "acme", Tool: "create_ticket", Key: key}
	_, s := d.startCall(ctx, "Do", &call)
	require.NoError(t, s.admit(ctx, d, "Do", call, false))
	s.call.effect = noEffect
	return &stateFixture{ctx: ctx, pool: pool, g: s.alone(), c: &s.call}
}

// spend uses up what the call may wait.
func spend(_ *testing.T, f *stateFixture) { f.c.waiter.max, f.c.waiter.waited = 1, 1 }

// cutOff leaves the Deduper with a pool that reaches no server.
func cutOff(t *testing.T, f *stateFixture) {
	t.Helper()
	config := f.pool.Config()
	config.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, errUnreachable }
	config.MinConns = 0
	pool, err := pgxpool.NewWithConfig(f.ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	f.c.d.pool = pool
}

// record has a twin make the call.
func (f *stateFixture) record(t *testing.T) {
	t.Helper()
	d, err := New(f.pool, nil)
	require.NoError(t, err)
	_, err = Do(f.ctx, d, Call{Scope: f.c.Scope, Tool: f.c.Tool, Key: f.c.Key}, func(context.Context, pgx.Tx) (int, error) { return 1, nil })
	require.NoError(t, err)
}

// lock has a twin be in flight until the test ends.
func (f *stateFixture) lock(t *testing.T) {
	t.Helper()
	tx, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(f.ctx)) })
	_, err = tx.Exec(f.ctx, `SELECT pg_advisory_xact_lock($1)`, f.c.Lock)
	require.NoError(t, err)
}

// stored is what an operator sees of the call.
func (f *stateFixture) stored(t *testing.T) State {
	t.Helper()
	status, err := f.c.d.Lookup(f.ctx, f.c.Scope, f.c.Tool, f.c.Key)
	require.NoError(t, err)
	return status.State
}

// constants returns the names of the constants of a type, whose values are their places
// in the list.
func constants(t *testing.T, file, typ string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	for _, decl := range parsed.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		if named, ok := gen.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); !ok || named.Name != typ {
			continue
		}
		for _, spec := range gen.Specs {
			names = append(names, spec.(*ast.ValueSpec).Names[0].Name)
		}
	}
	require.NotEmpty(t, names)
	return names
}

var (
	stateRow = regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|[^|]*\\|([^|]*)\\|")
	stepName = regexp.MustCompile(`\*\*([a-z]+)\*\*`)
)

// designStates reads the table of states in docs/design.md: the steps that are named in
// bold, by the state.
func designStates(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("docs/design.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## The states of an attempt\n")
	require.True(t, ok, "docs/design.md has no section for the states")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	for _, row := range stateRow.FindAllStringSubmatch(section, -1) {
		require.NotContains(t, rows, row[1], "docs/design.md has two rows for a state")
		rows[row[1]] = []string{}
		for _, step := range stepName.FindAllStringSubmatch(row[2], -1) {
			rows[row[1]] = append(rows[row[1]], step[1])
		}
	}
	return rows
}

func TestWaiterSpent(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		max, waited time.Duration
		spent       bool
	}{
		{max: -1, spent: true},
		{max: 0, waited: time.Hour},
		{max: 10, waited: 9},
		{max: 10, waited: 10, spent: true},
		{max: 10, waited: 11, spent: true},
		{max: 1, waited: 0},
	} {
		p := waiter{max: c.max, waited: c.waited}
		require.Equal(t, c.spent, p.spent(), "%+v", c)
	}
}

// TestWaiterWait: the shortest of what bounds a wait ends it.
func TestWaiterWait(t *testing.T) {
	t.Parallel()

	done := make(chan struct{})
	close(done)
	never := make(chan struct{})
	for name, c := range map[string]struct {
		p     waiter
		done  <-chan struct{}
		limit time.Duration
	}{
		"Done":                   {done: done},
		"Limit":                  {done: never, limit: time.Millisecond},
		"LimitBeforeWaiter":      {p: waiter{max: time.Hour}, done: never, limit: time.Millisecond},
		"WaiterBeforeLimit":      {p: waiter{max: time.Millisecond}, done: never, limit: time.Hour},
		"WaiterAlone":            {p: waiter{max: time.Millisecond}, done: never},
		"WhatIsLeftOfWaiter":     {p: waiter{max: time.Hour, waited: time.Hour - time.Millisecond}, done: never},
		"LimitAfterLongWaiting":  {p: waiter{waited: time.Hour}, done: never, limit: time.Millisecond},
		"DoneThoughThereIsLimit": {p: waiter{max: time.Hour}, done: done, limit: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			before := c.p.waited
			require.NoError(t, c.p.wait(ctx, c.done, c.limit))
			require.Greater(t, c.p.waited, before, "what was waited counts")
		})
	}

	t.Run("Spent", func(t *testing.T) {
		t.Parallel()
		p := waiter{max: -1}
		require.Equal(t, ErrInFlight, p.wait(t.Context(), done, 0))
		require.Zero(t, p.waited)
	})
	t.Run("ContextEnds", func(t *testing.T) {
		t.Parallel()
		cause := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		err := new(waiter).wait(ctx, never, time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, "waiting for a twin")
	})
}

// TestNextPause: pauses grow from 2 ms to 50 ms by a quarter each, and no wait is
// shorter than half of its pause or longer than it.
func TestNextPause(t *testing.T) {
	t.Parallel()

	var p waiter
	want := 2 * time.Millisecond
	for range 30 {
		drawn := p.nextPause()
		require.Equal(t, want, p.pause)
		require.GreaterOrEqual(t, drawn, want/2)
		require.LessOrEqual(t, drawn, want)
		want = min(time.Duration(float64(want)*1.25), 50*time.Millisecond)
	}
	require.Equal(t, 50*time.Millisecond, p.pause)
}

// TestJitter: every pause that may be drawn is drawn, and no other.
func TestJitter(t *testing.T) {
	t.Parallel()

	half, full := map[time.Duration]bool{}, map[time.Duration]bool{}
	for range 1000 {
		half[jitter(4)] = true
		full[fullJitter(3)] = true
	}
	require.Equal(t, map[time.Duration]bool{2: true, 3: true, 4: true}, half)
	require.Equal(t, map[time.Duration]bool{0: true, 1: true, 2: true, 3: true}, full)
	require.Zero(t, fullJitter(0))
}

// TestContextErrors: a context's cause is found beside its error, and named once.
func TestContextErrors(t *testing.T) {
	t.Parallel()

	cause := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	plain, end := context.WithCancel(t.Context())
	end()

	require.Equal(t, context.Canceled, contextError(plain))
	require.EqualError(t, contextError(ctx), "context canceled: the user left")

	failed := errors.New("no seat left")
	err := withContext(ctx, failed)
	for _, in := range []error{failed, context.Canceled, cause} {
		require.ErrorIs(t, err, in)
	}
	joined := errors.Join(context.Canceled, cause)
	require.Equal(t, joined, withContext(ctx, joined))
	require.ErrorIs(t, withContext(ctx, context.Canceled), cause, "the error alone does not name the cause")
	require.ErrorIs(t, withContext(ctx, cause), context.Canceled, "nor the cause the error")
}

// A call that has waited longer than it may still has a limit.
func TestEdgeRecordLimit(t *testing.T) {
	t.Parallel()
	d := &Deduper{opts: Options{CommitTimeout: 10 * time.Second}}
	for _, over := range []time.Duration{0, 4 * time.Millisecond, 5 * time.Millisecond, 8 * time.Millisecond} {
		c := &call{waiter: waiter{max: 100 * time.Millisecond, waited: 100*time.Millisecond + over}}
		tx := &transaction{g: &group{d: d}, locked: true, calls: []*call{c}}
		if limit := tx.recordLimit(); limit <= 0 {
			t.Errorf("over by %s: limit %s, which is none", over, limit)
		}
	}
}
