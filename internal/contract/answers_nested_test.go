package contract_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// An effect that returns the answer of a call inside it has failed, and has not answered so
// itself: no record is written, and every retry runs.
func TestAnswersOfAnotherCall(t *testing.T) {
	t.Parallel()
	inner := call("inner")
	first := func(t *testing.T, ctx context.Context, f *fixture, c dedup.Call, run dedup.Effect[ticket]) error {
		_, err := dedup.Do(ctx, f.d, c, run)
		return err
	}
	for name, row := range map[string]struct {
		answer  error
		prepare func(t *testing.T, ctx context.Context, f *fixture)
		call    func() dedup.Call
	}{
		"Refused": {answer: dedup.ErrRefused, prepare: func(t *testing.T, ctx context.Context, f *fixture) {
			require.ErrorIs(t, first(t, ctx, f, inner, refuse(dedup.Final(coded("x")))), dedup.ErrRefused)
		}},
		"KeyReused": {answer: dedup.ErrKeyReused, prepare: func(t *testing.T, ctx context.Context, f *fixture) {
			require.NoError(t, first(t, ctx, f, inner, effect("inner")))
		}, call: func() dedup.Call { c := inner; c.Args = "other"; return c }},
		"Expired": {answer: dedup.ErrExpired, prepare: func(t *testing.T, ctx context.Context, f *fixture) {
			mint := inner
			mint.Retention.Result = -1
			require.NoError(t, first(t, ctx, f, mint, effect("inner")))
		}},
		"InFlight": {answer: dedup.ErrInFlight, prepare: func(t *testing.T, ctx context.Context, f *fixture) {
			tx, err := f.pool.Begin(ctx)
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(ctx)) })
			_, err = dedup.DoTx(ctx, f.d, tx, inner, effect("inner"))
			require.NoError(t, err)
		}, call: func() dedup.Call { c := inner; c.MaxWait = -1; return c }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := newRecorder()
			ctx, f := plain.setup(t, &dedup.Options{Tracer: seen})
			row.prepare(t, ctx, f)
			before := f.records(t)
			asked := inner
			if row.call != nil {
				asked = row.call()
			}
			var got error
			e := &tool{ref: "outer", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				_, got = dedup.DoTx(ctx, f.d, tx, asked, effect("inner"))
				require.ErrorIs(t, got, row.answer)
				return got
			}}
			requireFailed := func(err error, as dedup.Outcome) {
				t.Helper()
				require.ErrorContains(t, err, got.Error())
				require.NotErrorIs(t, err, row.answer)
				var answer *dedup.Error
				require.NotErrorAs(t, err, &answer)
				var refusal *dedup.RefusedError
				require.NotErrorAs(t, err, &refusal)
				ends := events[dedup.CallEndData](seen)
				require.Equal(t, as, ends[len(ends)-1].Outcome)
			}

			for range 2 {
				_, err := dedup.Do(ctx, f.d, call("outer"), e.run)
				requireFailed(err, dedup.OutcomeError)
				require.Equal(t, dedup.IsRetryable(got), dedup.IsRetryable(err))
				require.NoError(t, pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
					_, err := dedup.DoTx(ctx, f.d, tx, call("outer"), e.run)
					requireFailed(err, dedup.OutcomeError)
					return nil
				}))
			}
			e.requireRuns(t, 4)
			require.Zero(t, f.effects(t, "outer"))
			require.Equal(t, before, f.records(t))

			_, err := dedup.Do(ctx, f.d, call("outer"), refuse(dedup.Final(got)))
			refusal := refused(t, err)
			require.Equal(t, got.Error(), refusal.Message)
			require.NotErrorIs(t, errors.Unwrap(refusal), row.answer)

			whys := []error{dedup.Final(unencodable{got})}
			if dedup.IsAnswer(got) { // StoreErrors records no error that passes
				whys = append(whys, unencodable{got})
			}
			for _, why := range whys {
				stored := call("not encoded")
				stored.StoreErrors = true
				_, err = dedup.Do(ctx, f.d, stored, refuse(why))
				require.ErrorIs(t, err, dedup.ErrInvalid)
				requireFailed(err, dedup.OutcomeInvalid)
			}
		})
	}
}

// unencodable is a refusal whose details cannot be encoded, because of another call's answer.
type unencodable struct{ error }

func (e unencodable) Unwrap() error                { return e.error }
func (e unencodable) MarshalJSON() ([]byte, error) { return nil, e.error }
