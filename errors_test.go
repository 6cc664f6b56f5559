package dedup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/table"
)

func TestErrorOf(t *testing.T) {
	t.Parallel()
	own := errors.New("no such seat")
	book, outer := table.Identity{Scope: "acme", Tool: "book", Key: "k"}, table.Identity{Scope: "acme", Tool: "outer", Key: "k"}
	for _, err := range []error{nil, &RefusedError{Message: "dedup: sold out"}} {
		require.Equal(t, err, annotate(book, err))
	}
	for _, err := range []error{own, errors.New("dedup: no such seat"), fmt.Errorf("booking: %w", pgx.ErrNoRows)} { // the text does not say whose it is
		require.Same(t, err, annotate(book, byEffect(err)))
	}
	for _, answer := range callErrors() { // of another call
		require.NotErrorIs(t, annotate(book, byEffect(fmt.Errorf("booking: %w", answer))), answer)
		err := annotate(book, byEffect(&Error{Kind: answer, Err: own}))
		require.NotErrorIs(t, err, answer)
		require.ErrorIs(t, err, own)
		require.NotErrorAs(t, err, new(*Error))
		require.NotErrorAs(t, err, new(*RefusedError))
	}
	inner := annotate(book, byEffect(fmt.Errorf("booking: %w", annotate(outer, missing("Key", "is empty")))))
	require.ErrorAs(t, inner, new(*InvalidError))
	require.ErrorAs(t, inner, new(interface{ OfEffect() bool }), "doors do not take it for their client's")
	require.False(t, IsAnswer(inner), "another call's")
	shared := &Error{Kind: ErrAttemptsExhausted, Attempts: 3, Err: own}
	for _, err := range []error{annotate(book, shared)} {
		require.Same(t, err, annotate(outer, err))
		require.Contains(t, err.Error(), `tool "book"`)
	}
	require.Empty(t, shared.Tool, "it is the answer of other calls too")
	require.EqualError(t, annotate(book, shared), `dedup: tool "book": gave up after 3 attempts, nothing was committed (key `+KeyHash("k")+`): no such seat`)
	named := annotate(book, ErrInFlight)
	require.EqualError(t, named, `dedup: tool "book": a twin of this call is in flight; call again with the same key`)
	require.ErrorIs(t, named, ErrInFlight)
	require.Equal(t, named, annotate(outer, named))
	for _, tool := range []string{"", "a\nb"} {
		require.Equal(t, ErrInFlight, annotate(table.Identity{Tool: tool}, ErrInFlight))
		require.Empty(t, annotate(table.Identity{Tool: tool}, shared).(*Error).Tool)
	}
	var misuse *InvalidError
	require.ErrorAs(t, annotate(book, fmt.Errorf("%w (more)", guard.ErrTxControl)), &misuse)
	require.Equal(t, "effect", misuse.What)

	// An ended context and a fault that passes stay what they are, whatever lies behind the aborted
	// transaction.
	deadlock := fmt.Errorf("%w: %w", guard.ErrTxAborted, sqlError("40P01"))
	for _, err := range []error{deadlock, fmt.Errorf("dedup: before another attempt: %w: %w", context.DeadlineExceeded, deadlock)} {
		require.NotErrorAs(t, annotate(book, err), &misuse)
		require.True(t, IsRetryable(annotate(book, err)), err)
	}
}

// Every way to make a call names its tool in the library's errors.
func TestErrorsNameTheTool(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	d, err := New(pool, nil)
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	nowhere, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(nowhere.Close)
	away, err := New(nowhere, &Options{Retry: RetryPolicy{MaxAttempts: 1}})
	require.NoError(t, err)

	call := Call{Scope: "acme", Tool: "book", Key: "k"}
	badArgs, noKey := call, call
	badArgs.Args, noKey.Key = make(chan int), ""
	fine := func(context.Context, pgx.Tx) (int, error) { return 1, nil }
	do := func(ctx context.Context, d *Deduper, c Call, e Effect[int]) error {
		_, err := Do(ctx, d, c, e)
		return err
	}
	statement := func(ctx context.Context, d *Deduper, sql string) error {
		_, err := DoStatement[map[string]any](ctx, d, call, SQL(sql))
		return err
	}
	batch := func(ctx context.Context, d *Deduper, sql string) (err error) {
		calls := func(yield func(StatementCall) bool) { yield(StatementCall{call, SQL(sql)}) }
		for out := range DoBatch[map[string]any](ctx, d, calls, nil) {
			err = out.Err
		}
		return err
	}
	inTx := func(c Call, e Effect[int]) error {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context())
		_, err = DoTx(t.Context(), d, tx, c, e)
		return err
	}
	for name, tc := range map[string]struct {
		err  error
		says string
	}{
		"NoKey":       {do(t.Context(), d, noKey, fine), `invalid call: Key is empty; make one`},
		"Args":        {do(t.Context(), d, badArgs, fine), `invalid call: Args cannot be encoded`},
		"NoEffect":    {do(t.Context(), d, call, nil), `invalid call: effect must not be nil`},
		"Ended":       {do(ended, d, call, fine), `context canceled`},
		"Unreachable": {do(t.Context(), away, call, fine), `gave up after 1 attempts`},
		"Result": {func() error {
			_, err := Do(t.Context(), d, call, func(context.Context, pgx.Tx) (chan int, error) { return make(chan int), nil })
			return err
		}(), `invalid result: the result cannot be encoded: `},
		"Nested":    {do(t.Context(), d, call, func(ctx context.Context, _ pgx.Tx) (int, error) { _, err := Do(ctx, d, call, fine); return 0, err }), `invalid call: ctx belongs to an effect`},
		"TxControl": {do(t.Context(), d, call, func(ctx context.Context, tx pgx.Tx) (int, error) { return 0, tx.Commit(ctx) }), `invalid effect: the effect cannot be committed: the transaction belongs to dedup`},
		"Swallows":  {do(t.Context(), d, call, func(ctx context.Context, tx pgx.Tx) (int, error) { _, _ = tx.Exec(ctx, `SELECT 1/0`); return 0, nil }), `the effect ignored a failed statement`},
		"Misuse":    {do(t.Context(), d, call, func(context.Context, pgx.Tx) (int, error) { return 0, invalidEffect(nil, "must not") }), `invalid effect: the effect must not`},
		"InTx":      {inTx(noKey, fine), `invalid call: Key is empty`},
		"InTxReentrant": {inTx(call, func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := DoTx(ctx, d, tx, call, fine)
			return 0, err
		}), `invalid call: ctx belongs to this call's own effect`},
		"StatementEnded":     {statement(ended, d, `SELECT 1 AS a`), `context canceled`},
		"BatchUnreachable":   {batch(t.Context(), away, `SELECT 1 AS a`), `gave up after 1 attempts`},
		"Lookup":             {second(d.Lookup(t.Context(), "acme", "book", "")), `invalid call: Key is empty`},
		"LookupUnreachable":  {second(away.Lookup(t.Context(), "acme", "book", "k")), `looking up: `},
		"ResetWithoutReason": {second(d.Reset(t.Context(), "acme", "book", "k", ChangeOptions{})), `invalid call: Reason must say`},
		"ResetUnreachable":   {second(away.Reset(t.Context(), "acme", "book", "k", ChangeOptions{Reason: "why"})), `changing the record: `},
	} {
		require.ErrorContains(t, tc.err, `dedup: tool "book": `+tc.says, name)
	}

	for name, inside := range map[string]func(ctx context.Context) error{
		"BeginFunc": func(ctx context.Context) error { return d.BeginFunc(ctx, func(pgx.Tx) error { return nil }) },
		"Lookup":    func(ctx context.Context) error { return second(d.Lookup(ctx, "acme", "book", "k")) },
		"Reset": func(ctx context.Context) error {
			return second(d.Reset(ctx, "acme", "book", "k", ChangeOptions{Reason: "why"}))
		},
		"Erase": func(ctx context.Context) error { return second(d.Erase(ctx, "acme", "", ChangeOptions{Reason: "why"})) },
		"Sweep": func(ctx context.Context) error { return second(d.Sweep(ctx, nil)) },
	} {
		err := do(t.Context(), d, call, func(ctx context.Context, _ pgx.Tx) (int, error) { return 0, inside(ctx) })
		require.ErrorIs(t, err, errNested, "%s waits for a second connection", name)
	}

	var misuse *InvalidError
	require.ErrorAs(t, do(t.Context(), d, call, func(ctx context.Context, tx pgx.Tx) (int, error) { return 0, fmt.Errorf("booking: %w", tx.Commit(ctx)) }), &misuse)
	require.Equal(t, "effect", misuse.What)

	own := errors.New("no such seat")
	require.Same(t, own, do(t.Context(), d, call, func(context.Context, pgx.Tx) (int, error) { return 0, own }))
}

func TestInvalidCallErrorHidesItsCause(t *testing.T) {
	t.Parallel()

	cause := errors.New("cannot encode card 4111")
	err := error(&InvalidError{What: "call", Field: "Args", Reason: "cannot be encoded", Err: cause})
	require.ErrorIs(t, err, cause)
	require.NotContains(t, err.Error(), "4111")
}

// quotes is a result whose methods' errors quote a value.
type quotes struct{}

func (quotes) MarshalJSON() ([]byte, error) { return nil, errors.New("no such card: 4111") }

func (*quotes) UnmarshalJSON([]byte) error { return errors.New("no such card: 4111") }

// TestResultErrorsDoNotTellTheValue: an invalid result's error names fields and types. Its cause,
// which may quote the value, is for errors.As.
func TestResultErrorsDoNotTellTheValue(t *testing.T) {
	t.Parallel()
	type small struct {
		Card int16 `json:"card"`
	}
	type at struct {
		Card time.Time `json:"card"`
	}
	type own struct {
		Card quotes `json:"card"`
	}
	ctx := t.Context()
	d, err := New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	record := func(key, stored string) Call {
		c := Call{Scope: "s", Tool: "t", Key: key}
		_, err := Do(ctx, d, c, func(context.Context, pgx.Tx) (json.RawMessage, error) { return json.RawMessage(stored), nil })
		require.NoError(t, err)
		return c
	}
	number, text := record("number", `{"card": 41114111}`), record("text", `{"card": "4111"}`)
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"Number": {second(Do(ctx, d, number, func(context.Context, pgx.Tx) (small, error) { panic("not run") })), `a JSON number is no int16 (field "card")`},
		"Time":   {second(Do(ctx, d, text, func(context.Context, pgx.Tx) (at, error) { panic("not run") })), "does not fit the caller's type"},
		"Reads":  {second(Do(ctx, d, text, func(context.Context, pgx.Tx) (own, error) { panic("not run") })), "does not fit the caller's type"},
		"Writes": {second(Do(ctx, d, Call{Scope: "s", Tool: "t", Key: "new"}, func(context.Context, pgx.Tx) (own, error) { return own{}, nil })), "error calling a method of dedup.quotes"},
		"Column": {second(DoStatement[small](ctx, d, Call{Scope: "s", Tool: "t", Key: "row"}, SQL(`SELECT 41114111::bigint AS card`))), `column 1, "card"`},
	} {
		var bad *InvalidError
		require.ErrorAs(t, c.err, &bad, name)
		require.Equal(t, "result", bad.What, name)
		require.ErrorContains(t, c.err, c.says, name)
		require.NotContains(t, c.err.Error(), "4111", name)
		require.ErrorContains(t, bad.Err, "4111", "%s: the caller can read the cause", name)
	}
}

func second[A any](_ A, err error) error { return err }
