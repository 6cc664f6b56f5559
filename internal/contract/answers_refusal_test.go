package contract_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/guard"
)

// cardRefusal is an error with everything that a refusal keeps.
type cardRefusal struct{ Limit int }

func (cardRefusal) Error() string { return "card declined" }
func (cardRefusal) Code() string  { return "card_declined" }
func (d cardRefusal) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"limit":%d}`, d.Limit), nil
}

type coded string

func (c coded) Error() string { return "coded " + string(c) }
func (c coded) Code() string  { return string(c) }

type detailed struct {
	text string
	err  error
}

func (detailed) Error() string                  { return "detailed" }
func (d detailed) MarshalJSON() ([]byte, error) { return []byte(d.text), d.err }

func refuse(err error) dedup.Effect[ticket] {
	return func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		if _, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`); err != nil {
			return ticket{}, err
		}
		return ticket{}, err
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t, nil)
	long := strings.Repeat("é", 1<<20)
	for name, row := range map[string]struct {
		err  error
		want dedup.RefusedError
	}{
		"Message":        {dedup.Final(errOwn), dedup.RefusedError{Message: errOwn.Error()}},
		"Everything":     {dedup.Final(cardRefusal{3}), dedup.RefusedError{Message: "card declined", Code: "card_declined", Details: json.RawMessage(`{"limit":3}`)}},
		"Code":           {dedup.Final(coded("x")), dedup.RefusedError{Message: "coded x", Code: "x"}},
		"EmptyCode":      {dedup.Final(coded("")), dedup.RefusedError{Message: "coded "}},
		"Wrapped":        {dedup.Final(fmt.Errorf("paying: %w", cardRefusal{4})), dedup.RefusedError{Message: "paying: card declined", Code: "card_declined", Details: json.RawMessage(`{"limit":4}`)}},
		"Joined":         {dedup.Final(errors.Join(errOwn, coded("j"))), dedup.RefusedError{Message: errOwn.Error() + "\ncoded j", Code: "j"}},
		"FinalTwice":     {dedup.Final(dedup.Final(coded("x"))), dedup.RefusedError{Message: "coded x", Code: "x"}},
		"FinalIsWrapped": {fmt.Errorf("outside: %w", dedup.Final(coded("x"))), dedup.RefusedError{Message: "coded x", Code: "x"}},
		"NullDetails":    {dedup.Final(detailed{text: "null"}), dedup.RefusedError{Message: "detailed", Details: json.RawMessage("null")}},
		"BlankMessage":   {dedup.Final(errors.New("")), dedup.RefusedError{}},
		"NUL":            {dedup.Final(errors.New("a\x00b")), dedup.RefusedError{Message: "a\x00b"}},
		"InvalidUTF8":    {dedup.Final(errors.New("a\xffb")), dedup.RefusedError{Message: "a\ufffdb"}},
		"LongMessage":    {dedup.Final(errors.New(long)), dedup.RefusedError{Message: long[:1024]}},
		"CutInRune":      {dedup.Final(errors.New("x" + long)), dedup.RefusedError{Message: ("x" + long)[:1023]}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dedup.Do(ctx, b.d, call(name), refuse(row.err))
			first := refused(t, err)
			require.ErrorIs(t, row.err, errors.Unwrap(first), "the first caller has the effect's own error")
			require.False(t, first.Replayed)
			row.want.CreatedAt = first.CreatedAt
			requireSame(t, &row.want, first)

			result, err := dedup.Do(ctx, b.d, call(name), effect("k"))
			again := refused(t, err)
			require.True(t, again.Replayed)
			require.True(t, result.Replayed)
			require.NoError(t, errors.Unwrap(again))
			requireSame(t, first, again)

			require.NoError(t, pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, b.d, tx, call(name), effect("k"))
				requireSame(t, first, refused(t, err))
				return nil
			}))
			status, err := b.d.Lookup(ctx, "acme", "create_ticket", name)
			require.NoError(t, err)
			require.Equal(t, dedup.StateRefused, status.State)
			requireSame(t, first, status.Refusal)
			require.Zero(t, b.effects(t, "k"))
		})
	}

	t.Run("FinalOfNil", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, dedup.Final(nil))
	})

	t.Run("InTx", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, nil)
		var first *dedup.RefusedError
		require.NoError(t, pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, b.d, tx, call("k"), refuse(dedup.Final(cardRefusal{1})))
			first = refused(t, err)
			require.False(t, first.Replayed)
			require.ErrorIs(t, err, cardRefusal{1})
			_, err = dedup.DoTx(ctx, b.d, tx, call("k"), effect("k"))
			require.True(t, refused(t, err).Replayed)
			return nil
		}))
		_, err := dedup.Do(ctx, b.d, call("k"), effect("k"))
		requireSame(t, first, refused(t, err))
		require.Zero(t, b.effects(t, "k"))
	})

	t.Run("AfterAFailedStatement", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, nil)
		aborted := func(ctx context.Context, tx pgx.Tx) (ticket, error) {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return ticket{}, dedup.Final(fmt.Errorf("no: %w", err))
		}
		_, err := dedup.Do(ctx, b.d, call("k"), aborted)
		require.False(t, refused(t, err).Replayed)
		require.NoError(t, pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, b.d, tx, call("tx"), aborted)
			require.False(t, refused(t, err).Replayed)
			return nil
		}))
		require.Equal(t, 2, b.records(t))
	})

	for name, bad := range map[string]error{
		"DetailsError": detailed{err: errOwn}, "DetailsInvalid": detailed{text: "{"},
		"DetailsTooLarge": detailed{text: `"` + long + `"`},
		"CodeTooLarge":    coded(long),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, b := setup(t, nil)
			_, err := dedup.Do(ctx, b.d, call("k"), refuse(dedup.Final(bad)))
			require.ErrorIs(t, err, dedup.ErrInvalid)
			require.NotErrorIs(t, err, dedup.ErrRefused)
			require.NoError(t, pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, b.d, tx, call("k"), refuse(dedup.Final(bad)))
				require.ErrorIs(t, err, dedup.ErrInvalid)
				return nil
			}))
			require.Zero(t, b.records(t))
			require.Zero(t, b.effects(t, "k"))
			_, err = dedup.Do(ctx, b.d, call("k"), effect("k"))
			require.NoError(t, err)
		})
	}
}

func refused(t *testing.T, err error) *dedup.RefusedError {
	t.Helper()
	var r *dedup.RefusedError
	require.ErrorAs(t, err, &r)
	require.ErrorIs(t, err, dedup.ErrRefused)
	require.False(t, dedup.IsRetryable(err))
	return r
}

// requireSame compares all but Replayed and Unwrap.
func requireSame(t *testing.T, a, b *dedup.RefusedError) {
	t.Helper()
	require.Equal(t, a.Error(), b.Error())
	require.Equal(t, a.Message, b.Message)
	require.Equal(t, a.Code, b.Code)
	require.Equal(t, string(a.Details), string(b.Details))
	require.Equal(t, a.Details == nil, b.Details == nil)
	require.True(t, a.CreatedAt.Equal(b.CreatedAt))
	require.False(t, b.CreatedAt.IsZero())
}

// TestStoreErrors: StoreErrors is for what a tool answers. What the server, an operator or this
// library objected to may be different next time.
func TestStoreErrors(t *testing.T) {
	t.Parallel()
	divides := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT 1/0`)
		return err
	}
	for name, row := range map[string]struct {
		store  bool
		effect dedup.Effect[ticket]
		stored bool
	}{
		"Default":        {false, refuse(errOwn), false},
		"DefaultFinal":   {false, refuse(dedup.Final(errOwn)), true},
		"Stored":         {true, refuse(errOwn), true},
		"StoredFinal":    {true, refuse(dedup.Final(errOwn)), true},
		"Raised":         {true, raising("P0001"), true},
		"Check":          {true, raising("23514"), true},
		"OutOfRange":     {true, raising("22003"), true},
		"NotTransient":   {true, raising("40001"), false},
		"NotCancelled":   {true, refuse(context.Canceled), false},
		"NotDeadline":    {true, refuse(fmt.Errorf("x: %w", context.DeadlineExceeded)), false},
		"NotResult":      {true, refuse(&dedup.InvalidError{What: "result", Err: errOwn}), false},
		"NotNested":      {true, refuse(dedup.ErrInvalid), false},
		"ServerError":    {true, func(ctx context.Context, tx pgx.Tx) (ticket, error) { return ticket{}, divides(ctx, tx) }, true},
		"NotControl":     {true, func(ctx context.Context, tx pgx.Tx) (ticket, error) { return ticket{}, tx.Commit(ctx) }, false},
		"NotAborted":     {true, func(ctx context.Context, tx pgx.Tx) (ticket, error) { _ = divides(ctx, tx); return ticket{}, nil }, false},
		"Cancelled":      {true, raising("57014"), false},
		"Internal":       {true, raising("XX000"), false},
		"Disk":           {true, raising("58030"), false},
		"Aborted":        {true, raising("25P02"), false},
		"Statement":      {true, raising("26000"), false},
		"Schema":         {true, refuse(&dedup.Error{Answer: dedup.ErrSchema}), false},
		"Broken":         {true, refuse(&dedup.Error{Answer: dedup.ErrBroken}), false},
		"TxClosed":       {true, refuse(pgx.ErrTxClosed), false},
		"OutcomeUnknown": {true, refuse(&dedup.Error{Answer: dedup.ErrOutcomeUnknown, Err: errPaper}), false},
		"InvalidCall":    {true, refuse(&dedup.InvalidError{What: "call", Field: "key"}), false},
		"InFlight":       {true, refuse(dedup.ErrInFlight), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 2}})
			c, inTx := call("k"), call("in tx")
			c.StoreErrors, inTx.StoreErrors = row.store, row.store
			tx := f.begin(t, ctx)
			_, err := dedup.DoTx(ctx, f.d, tx, inTx, row.effect)
			require.Error(t, err)
			require.Equal(t, row.stored, errors.Is(err, dedup.ErrRefused), "%v", err)
			require.NoError(t, tx.Commit(ctx))
			_, err = dedup.Do(ctx, f.d, c, row.effect)
			require.Error(t, err)
			require.Equal(t, row.stored, errors.Is(err, dedup.ErrRefused), "%v", err)
			require.Zero(t, f.effects(t, "k"))

			// What was stored binds every call.
			for _, key := range []string{"k", "in tx"} {
				_, err = dedup.Do(ctx, f.d, call(key), effect(key))
				if row.stored {
					require.True(t, refused(t, err).Replayed)
				} else {
					require.NoError(t, err)
				}
			}
		})
	}
}

// TestRefusalWithoutDo: an effect that is run without Do refuses in the same words.
func TestRefusalWithoutDo(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t, nil)
	declined := &declinedError{"card declined", "51"}
	final := fmt.Errorf("charging: %w", dedup.Final(declined))
	_, err := dedup.Do(ctx, b.d, call("refused"), func(context.Context, pgx.Tx) (ticket, error) { return ticket{}, final })
	var recorded, plain *dedup.RefusedError
	require.ErrorAs(t, err, &recorded)
	require.ErrorAs(t, b.d.Refusal(final), &plain)
	require.ErrorIs(t, plain, error(declined))
	require.Zero(t, plain.CreatedAt)
	require.Equal(t, []any{recorded.Message, recorded.Code, recorded.Details, false}, []any{plain.Message, plain.Code, plain.Details, plain.Replayed})

	require.NoError(t, b.d.Refusal(nil))
	require.NoError(t, b.d.Refusal(declined))
}

type declinedError struct{ message, code string }

func (e *declinedError) Error() string { return e.message }
func (e *declinedError) Code() string  { return e.code }

// What the guard refuses is a defect of the tool and nobody's answer, whatever the
// tool makes of it.
func TestFinalTxControlIsNotRecorded(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	_, err := dedup.Do(ctx, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		return ticket{}, dedup.Final(tx.Commit(ctx))
	})
	require.ErrorIs(t, err, guard.ErrTxControl)
	require.Zero(t, f.records(t))
}

// TestRefusalInTx: until the caller has committed or rolled back, a refusal is a
// call in flight like any other.
func TestRefusalInTx(t *testing.T) {
	t.Parallel()

	t.Run("HoldsItsIdentity", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			for _, commits := range []bool{true, false} {
				ctx, f := p.setup(t, &dedup.Options{MaxWait: -1})
				tx, other := f.begin(t, ctx), f.begin(t, ctx)
				_, err := dedup.DoTx(ctx, f.d, tx, call("k"), refuse(dedup.Final(errPaper)))
				require.False(t, refused(t, err).Replayed)

				status, err := f.d.Lookup(ctx, "acme", "create_ticket", "k")
				require.NoError(t, err)
				require.Equal(t, dedup.StateInFlight, status.State)
				e := &tool{ref: "k"}
				_, err = dedup.Do(ctx, f.d, call("k"), e.run)
				require.ErrorIs(t, err, dedup.ErrInFlight)
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
				_, err = dedup.DoTx(ctx, f.d, other, call("k"), e.run)
				require.ErrorIs(t, err, dedup.ErrInFlight)
				e.requireRuns(t, 0)
				require.NoError(t, other.Rollback(ctx))

				if commits {
					require.NoError(t, tx.Commit(ctx))
					_, err = dedup.Do(ctx, f.d, call("k"), e.run)
					require.True(t, refused(t, err).Replayed)
					e.requireRuns(t, 0)
				} else {
					require.NoError(t, tx.Rollback(ctx))
					_, err = dedup.Do(ctx, f.d, call("k"), e.run)
					require.NoError(t, err)
					e.requireRuns(t, 1)
				}
			}
		})
	})

	// The identity is free for a moment between the effect and its refusal. A
	// twin that takes it has the say.
	t.Run("TwinInBetween", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f, proxy := proxied(t, p, nil)
			held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Skip: 1, Where: func(u faultproxy.Unit) bool {
				return slices.Contains(u.Executes, "savepoint tool_dedup_1")
			}})
			tx := f.begin(t, ctx)
			out := make(chan answered, 1)
			go func() {
				var a answered
				a.Result, a.err = dedup.DoTx(ctx, f.d, tx, call("k"), refuse(dedup.Final(errPaper)))
				out <- a
			}()
			require.NoError(t, held.Wait(ctx))
			twin, err := dedup.Do(ctx, f.direct(t), call("k"), effect("k"))
			require.NoError(t, err)
			held.Release()

			got := receive(t, ctx, out).require(t)
			require.True(t, got.Replayed)
			require.Equal(t, twin.Value, got.Value)
			requireUsable(t, ctx, tx)
			require.NoError(t, tx.Commit(ctx))
			require.Equal(t, 1, f.records(t))
		})
	})

	// A caller's own statement does not deadlock with a twin of the refusal.
	t.Run("TwinHoldsNothing", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
			f.exec(t, `CREATE TABLE stock (n int)`)
			f.exec(t, `INSERT INTO stock VALUES (1)`)
			const take = `UPDATE stock SET n = n - 1`
			tx := f.begin(t, ctx)
			_, err := dedup.DoTx(ctx, f.d, tx, call("k"), refuse(dedup.Final(errPaper)))
			require.False(t, refused(t, err).Replayed)
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				_, err := tx.Exec(ctx, take)
				return err
			}}
			twin := start(ctx, f.peer(t), call("k"), e.run)
			require.NoError(t, f.events.untilWaiting(ctx, 0, 1))
			_, err = tx.Exec(ctx, take)
			require.NoError(t, err)
			require.NoError(t, tx.Commit(ctx))
			require.True(t, refused(t, receive(t, ctx, twin).err).Replayed)
			e.requireRuns(t, 0)
		})
	})
}

// raising is an effect that the server ends with code.
func raising(code string) dedup.Effect[ticket] {
	return func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Exec(ctx, raise(code))
		return ticket{}, err
	}
}

// storing is a call that stores its effect's errors.
func storing(key string) dedup.Call {
	c := call(key)
	c.StoreErrors = true
	return c
}

// NotFinal keeps an error out of the record, also where all others are stored,
// and hides nothing of it.
func TestNotFinal(t *testing.T) {
	t.Parallel()
	require.NoError(t, dedup.NotFinal(nil))
	require.EqualError(t, dedup.NotFinal(errPaper), errPaper.Error())

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		for range 2 {
			_, err := dedup.Do(ctx, f.d, storing("k"), func(context.Context, pgx.Tx) (ticket, error) { return ticket{}, dedup.NotFinal(errPaper) })
			require.ErrorIs(t, err, errPaper)
			require.NotErrorIs(t, err, dedup.ErrRefused)
			require.Zero(t, f.records(t))
		}
		result, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
		require.NoError(t, err)
		require.False(t, result.Replayed)
	})
	t.Run("WhateverElseSaysOtherwise", func(t *testing.T) {
		t.Parallel()
		for _, err := range []error{dedup.NotFinal(dedup.Final(errPaper)), dedup.Final(dedup.NotFinal(errPaper))} {
			ctx, f := plain.setup(t, nil)
			_, err := dedup.Do(ctx, f.d, call("k"), func(context.Context, pgx.Tx) (ticket, error) { return ticket{}, err })
			require.ErrorIs(t, err, errPaper)
			require.NotErrorIs(t, err, dedup.ErrRefused)
			require.Zero(t, f.records(t))
		}
	})
	t.Run("TransientIsRetried", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		runs := 0
		_, err := dedup.Do(ctx, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
			if runs++; runs == 1 {
				got, err := raising("40001")(ctx, tx)
				return got, dedup.NotFinal(err)
			}
			return effect("k")(ctx, tx)
		})
		require.NoError(t, err)
		require.Equal(t, 2, runs)
	})
}
