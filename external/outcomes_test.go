package external_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

var (
	errDeclined = dedup.Final(errors.New("card declined"))
	errBusy     = external.NotDone(errors.New("status 429"))
	errWorking  = errors.New("409: the first request still runs")
)

// refuses is a refusal whose Error method panics.
type refuses struct{}

func (refuses) Error() string { return "declined" }
func (refuses) Code() string  { panic("a bug") }

// outcomeCase is a tool, its provider's replies, and the expected outcome of a call.
type outcomeCase struct {
	tool            external.Tool[in, out]
	attempts, looks []answer
	// fails is called by Finish and Refused until it returns nil. Default nil.
	fails func(ctx context.Context, d *dedup.Deduper, tx pgx.Tx, why error) error

	twice        string // the expected Twice
	result       string // the id of the answer; empty if refused or parked
	note         string // of a parked operation
	sent, looked int
}

// outcomes have a row for each kind of reply to an attempt or a look-up, by the features of the
// provider.
var outcomes = map[string]outcomeCase{
	"Success": {tool: external.Tool[in, out]{KeyKept: external.Forever}, attempts: []answer{is("ch_1")}, result: "ch_1", sent: 1},
	"NotDone": {attempts: []answer{fails(errBusy), fails(errBusy), is("ch_1")}, result: "ch_1", sent: 3},
	"Refused": {attempts: []answer{fails(errDeclined)}, sent: 1},

	// The first attempt's request or its reply is lost.
	"Lost/Key":                {tool: external.Tool[in, out]{KeyKept: external.Forever}, attempts: []answer{fails(errLost), is("ch_1")}, result: "ch_1", sent: 2},
	"Lost/KeyForgotten":       {tool: external.Tool[in, out]{KeyKept: 2*lease + 1, Timeout: time.Millisecond}, attempts: []answer{fails(errLost)}, note: "the provider cannot be asked", sent: 1},
	"Lost/KeyTooOldToSettle":  {tool: external.Tool[in, out]{KeyKept: time.Minute, Settles: time.Minute - 2*lease - 1, Timeout: time.Second}, attempts: []answer{fails(errLost)}, note: "the provider cannot be asked", sent: 1},
	"Lost/FindSettlesFinds":   {tool: external.Tool[in, out]{Settles: time.Millisecond}, attempts: []answer{fails(errLost)}, looks: []answer{is("ch_1")}, result: "ch_1", sent: 1, looked: 1},
	"Lost/FindSettlesNothing": {tool: external.Tool[in, out]{Settles: time.Millisecond}, attempts: []answer{fails(errLost), is("ch_1")}, looks: []answer{is()}, result: "ch_1", sent: 2, looked: 1},
	"Lost/FindFinds":          {attempts: []answer{fails(errLost)}, looks: []answer{is("ch_1")}, result: "ch_1", sent: 1, looked: 1},
	"Lost/FindNothing":        {attempts: []answer{fails(errLost)}, looks: []answer{is()}, note: "not found", sent: 1, looked: 1},
	"Lost/Neither":            {attempts: []answer{fails(errLost)}, note: "no answer: the answer is lost", sent: 1},
	"Lost/KeyAndFindFinds":    {tool: external.Tool[in, out]{KeyKept: external.Forever}, attempts: []answer{fails(errLost)}, looks: []answer{is("ch_1")}, result: "ch_1", sent: 1, looked: 1},
	"Lost/KeyAndFindNothing":  {tool: external.Tool[in, out]{KeyKept: external.Forever}, attempts: []answer{fails(errLost), is("ch_1")}, looks: []answer{is()}, result: "ch_1", sent: 2, looked: 1},

	"Panics":  {attempts: []answer{fails(errPanics)}, note: "panic: a bug", sent: 1},
	"Timeout": {tool: external.Tool[in, out]{Timeout: time.Nanosecond}, attempts: []answer{fails(errHangs)}, note: "Timeout", sent: 1},
	// NotFinal overrides Final, inside or outside it.
	"NotFinalRefusal": {attempts: []answer{fails(dedup.NotFinal(errDeclined))}, note: "no answer: card declined", sent: 1},
	"RefusalNotFinal": {attempts: []answer{fails(fmt.Errorf("sent: %w", dedup.Final(dedup.NotFinal(errors.New("body not read")))))}, note: "no answer: sent: body not read", sent: 1},
	"RefusalIsFault":  {attempts: []answer{fails(dedup.Final(&pgconn.PgError{Code: "40001"}))}, note: "no answer: ", sent: 1},
	// Find returns an error while the provider is still working: nothing is sent again, even
	// after Settles.
	"StillWorking": {
		tool: external.Tool[in, out]{Settles: 1}, attempts: []answer{fails(errWorking)},
		looks: []answer{fails(errWorking), fails(errWorking), is("ch_1")}, result: "ch_1", sent: 1, looked: 3,
	},
	// A second attempt is refused while the first may still take effect: a look-up precedes the
	// answer.
	"RefusedBesideALateSuccess": {
		tool: external.Tool[in, out]{KeyKept: external.Forever, Settles: time.Hour}, attempts: []answer{fails(errLost), fails(errDeclined)},
		looks: []answer{is(), is("ch_1")}, result: "ch_1", sent: 2, looked: 2,
	},

	// A known key is not a refusal. The first look-up is too early.
	"Exists/Find": {
		tool: external.Tool[in, out]{KeyKept: external.Forever}, attempts: []answer{fails(errLost), fails(external.ErrExists)},
		looks: []answer{is(), is(), is("ch_1")}, result: "ch_1", sent: 2, looked: 3,
	},
	// The provider forgets the key before Find shows the effect: the row keeps that it exists.
	"Exists/Forgotten": {
		tool:     external.Tool[in, out]{KeyKept: external.Forever, Settles: time.Millisecond},
		attempts: []answer{fails(errLost), fails(external.ErrExists), is("ch_2")}, looks: []answer{is(), is(), is(), is("ch_1")}, result: "ch_1", sent: 2, looked: 4,
	},
	"Exists/Final":   {attempts: []answer{fails(dedup.Final(external.ErrExists))}, note: "already", sent: 1},
	"Exists/NotDone": {attempts: []answer{fails(external.NotDone(external.ErrExists))}, note: "already", sent: 1},
	"Exists/Blind":   {tool: external.Tool[in, out]{KeyKept: external.Forever}, attempts: []answer{fails(errLost), fails(external.ErrExists)}, note: "already", sent: 2},

	// A result without an id does not prove an effect.
	"WithoutRef/Neither": {attempts: []answer{is("")}, note: "lacks the provider's id", sent: 1},
	"WithoutRef/Key":     {tool: external.Tool[in, out]{KeyKept: external.Forever}, attempts: []answer{is(""), is("ch_1")}, result: "ch_1", sent: 2},
	"WithoutRef/Find":    {attempts: []answer{is("")}, looks: []answer{is(""), is("ch_1")}, result: "ch_1", sent: 1, looked: 2},

	// An effect without an id does not hide the others.
	"WithoutRef/Among": {attempts: []answer{fails(errLost)}, looks: []answer{is("", "ch_1")}, result: "ch_1", twice: "(none)", sent: 1, looked: 1},

	// An outcome that cannot be recorded is parked, and recorded later.
	"Finish/Refuses": {
		attempts: []answer{is("ch_1")}, result: "ch_1", note: "the ledger is closed", sent: 1,
		fails: func(context.Context, *dedup.Deduper, pgx.Tx, error) error {
			return dedup.Final(errors.New("the ledger is closed"))
		},
	},
	"Finish/RefusesByAnotherTool": {
		attempts: []answer{is("ch_1")}, result: "ch_1", note: "the ledger is closed", sent: 1,
		fails: func(ctx context.Context, d *dedup.Deduper, tx pgx.Tx, _ error) error {
			_, err := dedup.DoTx(ctx, d, tx, dedup.Call{Scope: "acme", Tool: "ledger", Key: "k"}, func(context.Context, pgx.Tx) (int, error) {
				return 0, dedup.Final(errors.New("the ledger is closed"))
			})
			return err
		},
	},
	"Finish/TimesOut": {
		attempts: []answer{is("ch_1")}, result: "ch_1", note: "context deadline exceeded", sent: 1,
		fails: func(context.Context, *dedup.Deduper, pgx.Tx, error) error { return context.DeadlineExceeded },
	},
	"Finish/Panics": {
		attempts: []answer{is("ch_1")}, result: "ch_1", note: "panic: a bug", sent: 1,
		fails: func(context.Context, *dedup.Deduper, pgx.Tx, error) error { panic("a bug") },
	},
	"Refused/FailsWithTheRefusal": {
		attempts: []answer{fails(errDeclined)}, note: "card declined", sent: 1,
		fails: func(_ context.Context, _ *dedup.Deduper, _ pgx.Tx, why error) error { return why },
	},
}

// TestOutcomes makes a call to each provider, then the same call again, and one with another input.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	shared.makeLedger()
	order := 0
	for name, c := range outcomes {
		order++
		input := in{order}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := process(t, shared.pool), &script{attempts: c.attempts, looks: c.looks}
			tool := ledger(s.tool(c.tool))
			failing := c.fails != nil
			finish, refused := tool.Finish, tool.Refused
			tool.Finish = func(ctx context.Context, tx pgx.Tx, i in, o out) error {
				if err := finish(ctx, tx, i, o); err != nil || !failing {
					return err
				}
				return c.fails(ctx, f.d, tx, nil)
			}
			tool.Refused = func(ctx context.Context, tx pgx.Tx, i in, why error) error {
				if err := refused(ctx, tx, i, why); err != nil || !failing {
					return err
				}
				return c.fails(ctx, f.d, tx, why)
			}
			h := add(f, tool)
			do := func() (dedup.Result[out], error) { return h.Do(f.ctx, call(name), input) }
			first, err := do()
			if failing {
				op := f.parkedBy(err, c.note)
				require.Equal(t, c.result, op.Ref)
				require.Empty(t, op.Twice)
				require.NotEmpty(t, op.Verdict)
				require.Empty(t, f.ledger(input.Order))
				failing = false
				f.until(name, external.StateDone)
				first, err = do()
				first.Replayed = false
			}
			again, errAgain := do()
			sent, looked := s.count()
			require.Equal(t, []int{c.sent, c.looked}, []int{sent, looked})
			for _, key := range s.keys {
				require.Equal(t, external.ProviderKey("acme", "charge", name), key)
			}
			op := f.lookup(name)
			require.Equal(t, external.ProviderKey("acme", "charge", name), op.ProviderKey)
			switch {
			case c.result != "":
				require.NoError(t, err)
				require.NoError(t, errAgain)
				require.Equal(t, out{c.result}, first.Value)
				require.False(t, first.Replayed, "this call has recorded it")
				require.True(t, again.Replayed)
				require.Equal(t, first.Value, again.Value)
				require.Equal(t, first.CreatedAt, again.CreatedAt)
				require.Equal(t, c.result, op.Ref)
				require.Equal(t, c.twice, op.Twice)
				require.Equal(t, []string{"finish " + c.result}, f.ledger(input.Order))
			case c.note != "" && c.fails == nil:
				f.parkedBy(err, c.note)
				f.parkedBy(errAgain, c.note)
				require.Equal(t, 1, f.steps.count(external.EventParked))
				require.Empty(t, f.ledger(input.Order))
			default:
				var refused *dedup.RefusedError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, c.fails != nil, refused.Replayed)
				require.ErrorAs(t, errAgain, &refused)
				require.True(t, refused.Replayed)
				require.Equal(t, "card declined", refused.Message)
				require.Equal(t, []string{"refused card declined"}, f.ledger(input.Order))
			}
			if op.State == external.StateDone { // only an empty look-up is followed by a recheck
				var input *string
				require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT input FROM tool_effect WHERE key = $1`, name).Scan(&input))
				require.Equal(t, input == nil, op.Due.IsZero())
				require.Equal(t, c.sent > 1 && c.looked > 0, !op.Due.IsZero())
			}
			_, err = h.Do(f.ctx, call(name), in{-1})
			var reused *dedup.Error
			require.ErrorAs(t, err, &reused)
			require.ErrorIs(t, err, dedup.ErrKeyReused)
			require.Equal(t, []string{"order"}, reused.Changed)
		})
	}
}

// parkedBy requires that a call is parked for a reason.
func (f *fixture) parkedBy(err error, note string) external.Operation {
	f.t.Helper()
	var parked *external.ParkedError
	require.ErrorAs(f.t, err, &parked)
	require.NotErrorIs(f.t, err, dedup.ErrRefused)
	require.Equal(f.t, external.StateParked, parked.Operation.State)
	require.Contains(f.t, parked.Operation.Note, note)
	return parked.Operation
}

// TestArgsAreCompared makes calls whose Args differ from their input.
func TestArgsAreCompared(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	compared := call("k")
	compared.Args = "the same"
	_, err := h.Do(f.ctx, compared, in{1})
	require.NoError(t, err)
	replayed, err := h.Do(f.ctx, compared, in{2})
	require.NoError(t, err)
	require.True(t, replayed.Replayed)
}

// panics is a result whose encoding panics.
type panics struct{ ID string }

func (panics) MarshalJSON() ([]byte, error) { panic("a bug") }
func (*panics) UnmarshalJSON([]byte) error  { panic("a bug") }

// TestResultsThatNoRecordHolds has results that cannot be recorded. They are effects: the
// operations are parked with their refs, and not attempted again.
func TestResultsThatNoRecordHolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parksResult(f, "a function", struct{ F func() }{}, "cannot be encoded")
	parksResult(f, "no UTF-8", json.RawMessage("\"a\xff\""), "cannot be encoded")
	parksResult(f, "too long", strings.Repeat("x", 2<<20), "result")
	op := parksResult(f, "panics", panics{"ch_1"}, "panic: a bug")
	require.ErrorIs(t, f.tools.Resolve(f.ctx, op, external.Happened(json.RawMessage(`{}`), "seen")), dedup.ErrInvalid)
}

func parksResult[Out any](f *fixture, name string, result Out, note string) external.Operation {
	f.t.Helper()
	attempts := 0
	h, err := external.Add(f.tools, external.Tool[in, Out]{
		Name: name, KeyKept: external.Forever, Ref: func(Out) string { return "ch_1" },
		Perform: func(context.Context, external.Attempt, in) (Out, error) {
			attempts++
			return result, nil
		},
	})
	require.NoError(f.t, err)
	_, err = h.Do(f.ctx, call("k"), in{1})
	op := f.parkedBy(err, note)
	require.Equal(f.t, "ch_1", op.Ref)
	require.Equal(f.t, 1, attempts)
	return op
}

// TestGivenUp tries operations that fail again and again until they are parked for an operator.
// Before that they are listed as open.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	forbidden := fails(external.NotDone(errors.New("401")))
	for name, c := range map[string]struct {
		tool            external.Tool[in, out]
		attempts, looks []answer
		tries           int // the tries before the one that parks it; default 2,699
		note            string
	}{
		"FindFails":        {attempts: []answer{fails(errLost)}, looks: []answer{fails(errors.New("403"))}, note: "given up after 2700 tries: 403"},
		"FindPanics":       {tool: external.Tool[in, out]{Ref: func(out) string { panic("a bug") }}, attempts: []answer{fails(errLost)}, looks: []answer{fails(errPanics)}, note: "panic: a bug"},
		"RefusalPanics":    {attempts: []answer{fails(dedup.Final(refuses{}))}, tries: 1, note: "an attempt ended without an answer"},
		"FindFailsSettles": {tool: external.Tool[in, out]{Settles: 1}, attempts: []answer{fails(errLost)}, looks: []answer{fails(errors.New("403"))}, note: "given up after 2700 tries: 403"},
		"NotDone":          {attempts: []answer{forbidden}, note: "given up after 2700 tries: 401"},
		"Replayed500":      {tool: external.Tool[in, out]{KeyKept: external.Forever}, attempts: []answer{fails(errors.New("500"))}, note: "given up after 2700 tries: 500"},
		"NotDoneAfterLost": {tool: external.Tool[in, out]{KeyKept: external.Forever}, attempts: []answer{fails(errLost), forbidden}, note: "given up after 2700 tries: 401"},
		"ExistsUnseen":     {tool: external.Tool[in, out]{KeyKept: external.Forever}, attempts: []answer{fails(external.ErrExists)}, looks: []answer{is()}, tries: 10, note: "it cannot be found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := process(t, shared.pool), &script{attempts: c.attempts, looks: c.looks}
			_, err := add(f, s.tool(c.tool)).Do(f.ctx, impatient(name), in{1})
			require.ErrorIs(t, err, dedup.ErrInFlight)
			listed := func(olderThan time.Duration) bool {
				open, err := f.tools.Open(f.ctx, f.pool, external.List{OlderThan: olderThan, Limit: 1000})
				require.NoError(t, err)
				return slices.ContainsFunc(open, func(op external.Operation) bool { return op.Key == name })
			}
			require.True(t, listed(0))
			require.False(t, listed(lease*1000), "it is not that old")
			f.exec(`UPDATE tool_effect SET tries = $2 WHERE key = $1`, name, cmp.Or(c.tries, 2699))
			f.untilDue(f.lookup(name))
			op := f.advance(name)
			require.Equal(t, external.StateParked, op.State)
			require.Contains(t, op.Note, c.note)
			require.False(t, listed(0), "it is parked")
		})
	}
}
