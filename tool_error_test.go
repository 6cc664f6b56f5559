package dedup

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestOfTool(t *testing.T) {
	t.Parallel()
	own := errors.New("no such seat")
	for _, err := range []error{nil, own, &RefusedError{Message: "dedup: sold out"}, fmt.Errorf("booking: %w", ErrInFlight)} {
		require.Equal(t, err, ofTool("book", err))
	}
	for _, err := range []error{&KeyReusedError{Tool: "book"}, &ExpiredError{Tool: "book"}, &BrokenError{Tool: "book"}, &ConflictError{Tool: "book"}, &BatchError{Tool: "book", Err: own}} {
		require.Same(t, err, ofTool("book", err))
		require.Contains(t, err.Error(), `of tool "book"`)
	}
	named := ofTool("book", ErrInFlight)
	require.EqualError(t, named, `dedup: tool "book": a twin of this call is in flight; call again with the same key`)
	require.ErrorIs(t, named, ErrInFlight)
	require.Equal(t, named, ofTool("outer", named))
	for _, tool := range []string{"", "a\nb"} {
		require.Equal(t, ErrInFlight, ofTool(tool, ErrInFlight))
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
		"Result":      {do(t.Context(), d, call, func(context.Context, pgx.Tx) (int, error) { _, err := encodeResult(make(chan int), 1); return 0, err }), `encode result: `},
		"Nested":      {do(t.Context(), d, call, func(ctx context.Context, _ pgx.Tx) (int, error) { _, err := Do(ctx, d, call, fine); return 0, err }), `Do inside an effect`},
		"TxControl":   {do(t.Context(), d, call, func(ctx context.Context, tx pgx.Tx) (int, error) { return 0, tx.Commit(ctx) }), `the transaction belongs to dedup`},
		"InTx":        {inTx(noKey, fine), `invalid call: Key is empty`},
		"InTxReentrant": {inTx(call, func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := DoTx(ctx, d, tx, call, fine)
			return 0, err
		}), `a call made itself again`},
		"Statement":          {statement(t.Context(), d, `DELETE FROM nowhere`), `invalid call: Statement is a DELETE without a RETURNING`},
		"StatementEnded":     {statement(ended, d, `SELECT 1 AS a`), `context canceled`},
		"Batch":              {batch(t.Context(), d, `SELECT $1`), `invalid call: Statement has 1 parameters and 0 arguments`},
		"BatchUnreachable":   {batch(t.Context(), away, `SELECT 1 AS a`), `gave up after 1 attempts`},
		"Lookup":             {second(d.Lookup(t.Context(), "acme", "book", "")), `invalid call: Key is empty`},
		"LookupUnreachable":  {second(away.Lookup(t.Context(), "acme", "book", "k")), `looking up: `},
		"ResetWithoutReason": {second(d.Reset(t.Context(), "acme", "book", "k", "")), `invalid call: reason must say`},
		"ResetUnreachable":   {second(away.Reset(t.Context(), "acme", "book", "k", "why")), `resetting: `},
	} {
		require.ErrorContains(t, tc.err, `dedup: tool "book": `+tc.says, name)
	}

	own := errors.New("no such seat")
	require.Same(t, own, do(t.Context(), d, call, func(context.Context, pgx.Tx) (int, error) { return 0, own }))
}

func second[A any](_ A, err error) error { return err }
