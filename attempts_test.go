package dedup

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
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

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// TestEnded: whatever ends the attempts after a lost COMMIT, its outcome is open, and the fault
// that hid it is named once.
func TestEnded(t *testing.T) {
	t.Parallel()

	lost, later := errors.New("connection reset"), errors.New("no connection left")
	require.Equal(t, later, new(call).orUnknown(later))

	c := &call{lost: lostCommit{err: lost}, attempts: 3}
	require.Equal(t, &Error{Kind: ErrOutcomeUnknown, Attempts: 3, Err: fmt.Errorf("%w (%w)", lost, later)}, c.orUnknown(later))
	require.Equal(t, &Error{Kind: ErrOutcomeUnknown, Attempts: 3, Err: lost}, c.orUnknown(lost))
}

// TestEndings holds the table of endings in docs/design.md to the code. Every kind of ending has
// one row, every row is a kind, and each row names exactly the steps that follow this kind.
func TestEndings(t *testing.T) {
	t.Parallel()
	names := constants(t, "attempts.go", "kind")
	rows := designRows(t)
	taken := map[string]map[string]bool{}
	for _, name := range names {
		require.Contains(t, rows, name, "docs/design.md has no row for this kind of ending")
		taken[name] = map[string]bool{}
	}
	for name := range rows {
		require.Contains(t, names, name, "docs/design.md has a row for an unknown kind of ending")
	}

	pool := pgtest.New(t).Pool(t)
	for name, c := range nextCases() {
		from, _, _ := strings.Cut(name, "/")
		require.Contains(t, names, from)
		f := newCallFixture(t, pool, name)
		if c.given != nil {
			c.given(t, f)
		}
		end := c.ending
		end.kind = kind(slices.Index(names, from))
		if end.kind == busy {
			end = f.c.wait(f.ctx, end)
		}
		follows, err := f.c.next(f.ctx, end)
		next := map[step]string{answerIt: "answered", failIt: "failed", tryAtOnce: "again", tryAfterAPause: "pause"}[follows]
		require.Equal(t, follows == failIt || follows == tryAfterAPause, err != nil, name)
		require.Equal(t, c.next, next, "%s: %v", name, err)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, name)
		}
		if c.then != nil {
			c.then(t, f)
		}
		taken[from][next] = true
	}
	for name, want := range rows {
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(taken[name])), "the row of %s says otherwise than the code does", name)
	}
}

// nextCase is an ending and the expected next step.
type nextCase struct {
	given  func(*testing.T, *callFixture)
	ending ending
	next   string
	is     error
	then   func(*testing.T, *callFixture)
}

// nextCases are endings by their kind, with a name behind it where there are several.
func nextCases() map[string]nextCase {
	fault := errors.New("a fault")
	answered := func(t *testing.T, f *callFixture) {
		t.Helper()
		require.NotNil(t, f.c.rec)
		require.False(t, f.c.executed)
	}
	open := func(t *testing.T, f *callFixture) { t.Helper(); require.Nil(t, f.c.rec) }
	return map[string]nextCase{
		"done": {
			given: func(_ *testing.T, f *callFixture) {
				f.c.written = table.NewRecord(&f.c.Entry, table.Done, "1")
				f.c.written.CreatedAt = time.Now()
			},
			next: "answered",
			then: func(t *testing.T, f *callFixture) { t.Helper(); require.True(t, f.c.executed) },
		},
		"done/without a record": {next: "failed", is: ErrBroken, then: func(t *testing.T, f *callFixture) {
			t.Helper()
			require.Equal(t, StateBroken, f.stored(t))
		}},
		"found": {next: "answered", then: answered},
		"busy":  {next: "again", then: open},
		"busy/answered meanwhile": {
			given: func(t *testing.T, f *callFixture) { t.Helper(); f.record(t) },
			next:  "answered", then: answered,
		},
		"busy/waited long enough": {given: spend, next: "failed", is: ErrInFlight},
		"busy/the look fails":     {given: cutOff, next: "pause", is: errUnreachable},
		"busy/somebody who is no twin has the row": {
			given: func(t *testing.T, f *callFixture) { t.Helper(); f.lock(t); spend(t, f) }, ending: ending{err: fault}, next: "pause", is: fault,
		},
		"busy/behind the effect":                     {next: "again", then: open},
		"busy/behind the effect, waited long enough": {given: spend, next: "failed", is: ErrInFlight},
		"busy/behind the effect, and the look fails": {given: cutOff, next: "pause", is: errUnreachable},
		"again":               {next: "again", then: open},
		"again/after a fault": {ending: ending{err: fault, pause: true}, next: "pause", is: fault, then: open},
		"unknown": {ending: ending{err: fault}, next: "pause", is: fault, then: func(t *testing.T, f *callFixture) {
			t.Helper()
			require.ErrorIs(t, f.c.exhaust(&exhaustion{err: fault}), ErrOutcomeUnknown)
		}},
		"failed": {ending: ending{err: fault}, next: "failed", is: fault},
		"failed/after a lost COMMIT": {
			given:  func(_ *testing.T, f *callFixture) { f.c.lost.add(fault, table.Record{SentAt: time.Now()}) },
			ending: ending{err: fault}, next: "failed", is: ErrOutcomeUnknown,
		},
	}
}

// errUnreachable is the error of every dial after cutOff.
var errUnreachable = errors.New("the server is unreachable")

// callFixture is a call that has had an attempt.
type callFixture struct {
	ctx  context.Context
	pool *pgxpool.Pool
	c    *call
}

func newCallFixture(t *testing.T, pool *pgxpool.Pool, key string) *callFixture {
	t.Helper()
	d, err := New(pool, nil)
	require.NoError(t, err)
	ctx := t.Context()
	call := Call{Scope: "acme", Tool: "create_ticket", Key: key}
	_, c := startCall(ctx, d, "Do", &call)
	require.NoError(t, c.check(ctx, d, &call))
	c.current.inOwnTx = true
	return &callFixture{ctx: ctx, pool: pool, c: c}
}

// spend uses up the call's MaxWait.
func spend(_ *testing.T, f *callFixture) { f.c.maxWait, f.c.waits.all = 1, 1 }

// cutOff leaves the Deduper with a pool that reaches no server.
func cutOff(t *testing.T, f *callFixture) {
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
func (f *callFixture) record(t *testing.T) {
	t.Helper()
	d, err := New(f.pool, nil)
	require.NoError(t, err)
	_, err = Do(f.ctx, d, Call{Scope: f.c.Scope, Tool: f.c.Tool, Key: f.c.Key}, func(context.Context, pgx.Tx) (int, error) { return 1, nil })
	require.NoError(t, err)
}

// lock has a twin be in flight until the test ends.
func (f *callFixture) lock(t *testing.T) {
	t.Helper()
	tx, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(f.ctx)) })
	_, err = tx.Exec(f.ctx, `SELECT pg_advisory_xact_lock($1)`, f.c.Lock)
	require.NoError(t, err)
}

// stored is what an operator sees of the call.
func (f *callFixture) stored(t *testing.T) State {
	t.Helper()
	status, err := f.c.d.Lookup(f.ctx, f.c.Scope, f.c.Tool, f.c.Key)
	require.NoError(t, err)
	return status.State
}

// constants returns the names of the constants of a type, whose values are their places in the
// list.
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
	endingRow = regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|[^|]*\\|([^|]*)\\|")
	nextName  = regexp.MustCompile(`\*\*([a-z]+)\*\*`)
)

// designRows reads the table of endings in docs/design.md. It maps each kind to the words in bold.
func designRows(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("docs/design.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## How an attempt ends\n")
	require.True(t, ok, "docs/design.md has no section for the endings")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	for _, row := range endingRow.FindAllStringSubmatch(section, -1) {
		require.NotContains(t, rows, row[1], "docs/design.md has two rows for a kind of ending")
		rows[row[1]] = []string{}
		for _, next := range nextName.FindAllStringSubmatch(row[2], -1) {
			rows[row[1]] = append(rows[row[1]], next[1])
		}
	}
	return rows
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

// TestIsAnswerOfThisCall: an effect's error is no answer, even if it is the answer of another call,
// and neither is the end of a transaction that took too long or was read-only once. An error that
// NotFinal marks is not recorded, even if Final marks it too.
func TestIsAnswerOfThisCall(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"inner refusal": &effectError{&RefusedError{Message: "sold out"}},
		"too slow":      tooSlow(&pgconn.PgError{Code: wire.CodeIdleInTransaction}),
		"read-only":     readOnlyTx(&pgconn.PgError{Code: wire.CodeReadOnly, Routine: "PreventCommandIfReadOnly"}),
		"inner final":   annotate(table.Identity{Tool: "t"}, byEffect(NotFinal(Final(errors.New("sold out"))))),
		"outer final":   annotate(table.Identity{Tool: "t"}, byEffect(Final(NotFinal(errors.New("sold out"))))),
	} {
		require.False(t, IsAnswer(err), name)
		require.False(t, IsRetryable(err), name)
	}
	require.True(t, IsAnswer(misused(guard.ErrTxControl)))

	// A mark of Final makes no answer of a transient fault: Do retries it.
	transient := Final(sqlError("40001"))
	require.False(t, IsAnswer(transient))
	require.True(t, IsRetryable(transient))
	require.NoError(t, new(Deduper).Refusal(transient))
	require.True(t, IsAnswer(Final(errors.New("declined"))))
}
