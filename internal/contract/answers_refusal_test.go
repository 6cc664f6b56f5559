package contract_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/sqldedup"
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
		"ContextError":   {dedup.Final(context.DeadlineExceeded), dedup.RefusedError{Message: context.DeadlineExceeded.Error()}},
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

	for name, bad := range map[string]error{
		"DetailsError": detailed{err: errOwn}, "DetailsInvalid": detailed{text: "{"},
		"DetailsTooLarge": detailed{text: `"` + long + `"`},
		"CodeTooLarge":    coded(long),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dedup.Do(ctx, b.d, call(name), refuse(dedup.Final(bad)))
			require.ErrorIs(t, err, dedup.ErrInvalid)
			require.NotErrorIs(t, err, dedup.ErrRefused)
			require.NoError(t, pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, b.d, tx, call(name), refuse(dedup.Final(bad)))
				require.ErrorIs(t, err, dedup.ErrInvalid)
				return nil
			}))
			require.Zero(t, b.effects(t, "k"))
			result, err := dedup.Do(ctx, b.d, call(name), effect(name))
			require.NoError(t, err)
			require.False(t, result.Replayed, "nothing is recorded")
		})
	}
}

// TestRefusalOfDatabase: the record knows that its message is the database's, even if the message is
// cut, or has the form of database/sql.
func TestRefusalOfDatabase(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, &dedup.Options{MaxResultBytes: 8 << 10})
	cast := func(text string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT $1::text::int`, text).Scan(new(int))
		}
	}
	for name, row := range map[string]struct {
		fails func(ctx context.Context, tx pgx.Tx) error
		want  bool
	}{
		"Server":    {cast(canary), true},
		"LongValue": {cast(strings.Repeat(canary, 1000)), true},
		"Argument": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT $1::int`, canary)
			return err
		}, true},
		"Column": {func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT $1::text`, canary).Scan(new(int))
		}, true},
		"ColumnOfSQL": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := sqldedup.Run(ctx, tx, func(ctx context.Context, tx *sql.Tx) (n int, err error) {
				return n, tx.QueryRowContext(ctx, `SELECT $1::text`, canary).Scan(&n)
			})
			return err
		}, true},
		"ReplayedRefusal": {func(ctx context.Context, tx pgx.Tx) (err error) {
			for range 2 { // the second error has no trace of the database
				_, err = dedup.DoTx(ctx, f.d, tx, storing("inner"), func(ctx context.Context, tx pgx.Tx) (int, error) {
					return 0, cast(strings.Repeat(canary, 1000))(ctx, tx)
				})
			}
			return err
		}, true},
		"OwnText": {func(ctx context.Context, tx pgx.Tx) error { return seatTaken{cast(canary)(ctx, tx)} }, false},
		"Own":     {func(context.Context, pgx.Tx) error { return errOwn }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				dedup.Call
				mark func(error) error
			}{{storing(name), func(err error) error { return err }}, {call(name + " final"), dedup.Final}} {
				fails := func(ctx context.Context, tx pgx.Tx) (int, error) { return 0, c.mark(row.fails(ctx, tx)) }
				_, err := dedup.Do(ctx, f.d, c.Call, fails)
				first := refused(t, err)
				require.Equal(t, row.want, first.OfDatabase)
				_, err = dedup.Do(ctx, f.d, c.Call, fails)
				again := refused(t, err)
				require.True(t, again.Replayed)
				requireSame(t, first, again)
				status, err := f.d.Lookup(ctx, c.Scope, c.Tool, c.Key)
				require.NoError(t, err)
				requireSame(t, first, status.Refusal)
			}
		})
	}
}

// seatTaken is an error of a tool that wraps the database's and does not quote it.
type seatTaken struct{ err error }

func (seatTaken) Error() string   { return "the seat is taken" }
func (e seatTaken) Unwrap() error { return e.err }

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
	require.Equal(t, a.OfDatabase, b.OfDatabase)
	require.True(t, a.CreatedAt.Equal(b.CreatedAt))
	require.False(t, b.CreatedAt.IsZero())
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
	for _, open := range []error{
		dedup.NotFinal(final), dedup.Final(dedup.NotFinal(declined)), fmt.Errorf("charging: %w", dedup.NotFinal(final)), errors.Join(final, dedup.NotFinal(declined)),
	} {
		require.NoError(t, b.d.Refusal(open))
	}
}

type declinedError struct{ message, code string }

func (e *declinedError) Error() string { return e.message }
func (e *declinedError) Code() string  { return e.code }

// TestRefusalInTx: until the caller has committed or rolled back, a refusal is a
// call in flight like any other.
func TestRefusalInTx(t *testing.T) {
	t.Parallel()

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

// storing is a call that stores its effect's errors.
func storing(key string) dedup.Call {
	c := call(key)
	c.StoreErrors = true
	return c
}

// TestRefusalIsNotRecorded: if a refusal's context ends before the refusal is recorded, it is not
// the answer. The next call runs again.
func TestRefusalIsNotRecorded(t *testing.T) {
	t.Parallel()

	for name, do := range map[string]func(context.Context, *fixture, dedup.Effect[ticket]) error{
		"Do": func(ctx context.Context, f *fixture, effect dedup.Effect[ticket]) error {
			_, err := dedup.Do(ctx, f.d, call("Do"), effect)
			return err
		},
		"DoTx": func(ctx context.Context, f *fixture, effect dedup.Effect[ticket]) error {
			tx, err := f.pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			_, err = dedup.DoTx(ctx, f.d, tx, call("DoTx"), effect)
			return err
		},
		"BeginFunc": func(ctx context.Context, f *fixture, effect dedup.Effect[ticket]) error {
			return f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, f.d, tx, call("BeginFunc"), effect)
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, nil)
			calling, cancel := context.WithCancel(ctx)
			err := do(calling, f, func(context.Context, pgx.Tx) (ticket, error) {
				cancel()
				return ticket{}, dedup.Final(errOwn)
			})
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, errOwn)
			require.NotErrorIs(t, err, dedup.ErrRefused)
			require.True(t, dedup.IsRetryable(err))
			require.Zero(t, f.records(t))
			require.NoError(t, do(ctx, f, effect("k")))
		})
	}
}

// TestRefusalWithoutALookUp: the effect refuses, and the look-up behind it fails. The refusal is not
// recorded, so it is no answer.
func TestRefusalWithoutALookUp(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	d := newDeduper(t, f.db.Pool(t, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["statement_timeout"] = "3s"
	}), &f.opts)
	beside, locked := f.beside(t), make(chan error, 1)
	_, err := dedup.Do(ctx, d, call("k"), func(context.Context, pgx.Tx) (ticket, error) {
		go func() {
			_, err := beside.Exec(ctx, `LOCK TABLE tool_dedup IN ACCESS EXCLUSIVE MODE`)
			locked <- err
		}()
		f.untilWaitingInside(t, 1) // it gets the lock when the effect is rolled back
		return ticket{}, dedup.Final(errOwn)
	})
	require.NoError(t, receive(t, ctx, locked))
	require.NoError(t, beside.Rollback(ctx))
	requireNoAnswer(t, d, err)
	requireState(t, err, "57014")
	require.Zero(t, f.records(t))
}

// TestFinalOutsideAnEffect: Final marks the error of an effect, and BeginFunc's function is none.
func TestFinalOutsideAnEffect(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	requireNoAnswer(t, f.d, f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT 1`)
		require.NoError(t, err)
		return dedup.Final(errOwn)
	}))
}

// requireNoAnswer requires an error that is the effect's own and was not recorded.
func requireNoAnswer(t *testing.T, d *dedup.Deduper, err error) {
	t.Helper()
	require.ErrorIs(t, err, errOwn)
	require.NotErrorIs(t, err, dedup.ErrRefused)
	require.False(t, dedup.IsAnswer(err))
	require.NoError(t, d.Refusal(err))
}
