package contract_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// notKept is a call whose answer is not kept.
func notKept(key string) dedup.Call {
	c := call(key)
	c.Retention = dedup.Retention{Result: -1, Tombstone: time.Hour}
	return c
}

// requireNotKept requires the error of a call that ran before and kept no answer. refused is true
// if the answer was a refusal.
func requireNotKept(t *testing.T, err error) (refused bool) {
	t.Helper()
	var expired *dedup.Error
	require.ErrorIs(t, err, dedup.ErrExpired)
	require.ErrorAs(t, err, &expired)
	require.ErrorContains(t, err, "its answer was not kept")
	require.True(t, expired.ExpiredAt.IsZero())
	require.Equal(t, time.Hour, expired.ForgetAt.Sub(expired.CreatedAt))
	require.True(t, dedup.IsAnswer(err))
	require.False(t, dedup.IsRetryable(err))
	return expired.Refused
}

// requireTombstone requires that the record of a key has no result and is due when it is forgotten.
func (b *bundle) requireTombstone(t *testing.T, key string) {
	t.Helper()
	require.True(t, scalar[bool](t, b, `SELECT result IS NULL AND expires_at < created_at AND expires_at >= created_at - interval '1 s'
		AND forget_at = created_at + interval '1 h' FROM tool_dedup WHERE key = $1`, key))
}

// caseNotKept: the call that runs the effect gets its answer. Every later call gets ErrExpired.
func caseNotKept(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	for name, do := range map[string]way{"Do": byDo, "DoStatement": byStatement, "DoBatch": byBatchOfTwo, "DoTx": byTx} {
		c := notKept(name)
		first, err := do(ctx, f.d, c)
		require.NoError(t, err, name)
		require.Equal(t, name, first.Value.Title)
		require.Positive(t, first.Value.ID)
		require.False(t, first.Replayed)
		require.False(t, first.CreatedAt.IsZero())
		require.True(t, first.ExpiresAt.IsZero())
		f.requireTombstone(t, name)

		for _, lookFirst := range []bool{false, true} {
			c.LookFirst = lookFirst
			for _, d := range []*dedup.Deduper{f.d, f.peer(t)} {
				again, err := do(ctx, d, c)
				require.False(t, requireNotKept(t, err))
				require.Zero(t, again.Value)
				require.True(t, first.CreatedAt.Equal(again.CreatedAt))
			}
		}
		status, err := f.d.Lookup(ctx, c.Scope, c.Tool, c.Key)
		require.NoError(t, err)
		require.Equal(t, dedup.StateExpired, status.State)
		require.Nil(t, status.Result)
		c.Args = map[string]any{"title": "printer is fine"}
		_, err = do(ctx, f.d, c)
		var reused *dedup.Error
		require.ErrorAs(t, err, &reused)
		require.Equal(t, []string{"title"}, reused.Changed)
		require.Equal(t, 1, f.effects(t, name))
	}
	require.Empty(t, f.events.ended(dedup.OutcomeReplayed, dedup.OutcomeRecovered))
	for _, e := range f.events.ended(dedup.OutcomeExecuted) {
		require.Zero(t, e.ResultBytes)
	}
}

// caseRefusalNotKept: a refusal is an answer too.
func caseRefusalNotKept(t *testing.T, p profile) {
	ctx, f := p.setup(t, &dedup.Options{Retention: dedup.Retention{Result: -1, Tombstone: time.Hour}})
	refused := dedup.SQL(`SELECT 1 / 0 AS id, '' AS title`)
	refused.OnError = func(error) error { return dedup.Final(cardRefusal{3}) }
	inTx := func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (result dedup.Result[ticket], err error) {
		err = d.BeginFunc(ctx, func(tx pgx.Tx) error {
			result, err = dedup.DoTx(ctx, d, tx, c, refuse(dedup.Final(cardRefusal{3})))
			return err
		})
		return result, err
	}
	for name, do := range map[string]way{
		"Do": func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
			return dedup.Do(ctx, d, c, refuse(dedup.Final(cardRefusal{3})))
		},
		"DoStatement": func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
			return dedup.DoStatement[ticket](ctx, d, c, refused)
		},
		"DoBatch": func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
			out := outcomes(ctx, d, dedup.StatementCall{Call: c, Statement: refused}, dedup.StatementCall{Call: call(c.Key + " beside"), Statement: leave("beside")})
			return out[0].Result, out[0].Err
		},
		"DoTx": inTx,
	} {
		_, err := do(ctx, f.d, call(name))
		var first *dedup.RefusedError
		require.ErrorAs(t, err, &first, name)
		require.Equal(t, "card declined", first.Message)
		require.Equal(t, json.RawMessage(`{"limit":3}`), first.Details)
		require.False(t, first.Replayed)
		f.requireTombstone(t, name)

		_, err = do(ctx, f.d, call(name))
		require.True(t, requireNotKept(t, err))
		require.NotErrorIs(t, err, dedup.ErrRefused)
	}
	require.Zero(t, f.effects(t, "k"))
}

// caseFollowersOfNotKept: a call that waited for its twin is told that the twin ran, in its process
// and in another one.
func caseFollowersOfNotKept(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	e, land := f.inFlight(t, ctx, f.d, notKept("k"))
	followers := []<-chan answered{f.start(ctx, f.d, notKept("k"), e.run), f.start(ctx, f.peer(t), notKept("k"), e.run)}
	require.NoError(t, f.events.untilWaiting(ctx, 1, 1))
	require.Equal(t, 1, land().Value.ID)
	for _, follower := range followers {
		a := receive(t, ctx, follower)
		requireNotKept(t, a.err)
		require.Zero(t, a.Value)
	}
	require.Equal(t, 1, f.effects(t, "k"))
}

// TestNotKeptTwiceInABatch: the second call of an identity in one batch is a later call.
func TestNotKeptTwiceInABatch(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		twice := dedup.StatementCall{Call: notKept("k"), Statement: leave("k")}
		out := outcomes(ctx, f.d, twice, single("kept"), twice)
		require.NoError(t, out[0].Err)
		require.NoError(t, out[1].Err)
		requireNotKept(t, out[2].Err)
		require.Zero(t, out[2].Result.Value)
		f.requireTombstone(t, "k")
		kept, err := byStatement(ctx, f.d, call("kept"))
		require.NoError(t, err)
		require.True(t, kept.Replayed)
	})
}

// TestNotKeptAnswerLost: the answer to the COMMIT of a call is lost, and the database does not have
// the call's answer. The call returns it from memory if the record is its own.
func TestNotKeptAnswerLost(t *testing.T) {
	t.Parallel()

	for name, do := range ways {
		for _, order := range []orderKind{lockFirst, claimFirst} {
			if order == claimFirst && name != "Do" {
				continue
			}
			p := profile{order: order, isolation: pgx.ReadCommitted}
			t.Run(fmt.Sprint(name, "-", order, "-OwnRecord"), func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry})
				lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: atRecord})
				got, err := do(ctx, f.d, notKept("k"))
				require.NoError(t, err)
				require.Equal(t, 1, lost.Count())
				require.Equal(t, scalar[int](t, f.bundle, `SELECT run FROM effects WHERE ref = 'k'`), got.Value.ID)
				require.True(t, got.Replayed)
				require.True(t, got.Recovered)
				require.True(t, got.ExpiresAt.IsZero())
				f.requireTombstone(t, "k")
				_, err = do(ctx, f.d, notKept("k"))
				requireNotKept(t, err)
			})

			// The COMMIT is lost too, and a twin runs before the call looks. The call's own value
			// belongs to a transaction that was rolled back.
			t.Run(fmt.Sprint(name, "-", order, "-RecordOfATwin"), func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry}, poolOfOne)
				lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: atRecord})
				connecting := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtConnect})
				pending := do.start(ctx, f.d, notKept("k"))
				require.NoError(t, lost.Wait(ctx))
				require.NoError(t, connecting.Wait(ctx))
				twin, err := do(ctx, f.direct(t), notKept("k"))
				require.NoError(t, err)
				require.False(t, twin.Replayed)
				connecting.Release()

				late := receive(t, ctx, pending)
				requireNotKept(t, late.err)
				require.Zero(t, late.Value)
				require.False(t, late.Recovered)
				require.Equal(t, 1, f.effects(t, "k"))
			})
		}
	}
}

// TestNotKeptRefusalLost is TestNotKeptAnswerLost for a refusal.
func TestNotKeptRefusalLost(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry})
		lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: atRecord})
		_, err := dedup.Do(ctx, f.d, notKept("k"), refuse(dedup.Final(cardRefusal{3})))
		var refused *dedup.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 1, lost.Count())
		require.True(t, refused.Recovered)
		require.Equal(t, json.RawMessage(`{"limit":3}`), refused.Details)
		f.requireTombstone(t, "k")
	})
}

// TestNotKeptRunsAnewWhenForgotten: a sweep leaves the record until it is forgotten, and then
// deletes it. The next call runs.
func TestNotKeptRunsAnewWhenForgotten(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		for _, swept := range []bool{false, true} {
			first, err := byDo(ctx, f.d, notKept("k"))
			require.NoError(t, err)
			require.False(t, first.Replayed)
			got, err := f.d.Sweep(ctx, nil)
			require.NoError(t, err)
			require.Zero(t, got.Expired+got.Forgotten)
			requireNotKept(t, second(byDo(ctx, f.d, notKept("k"))))
			f.age(t, "k", "1 hour")
			if swept {
				got, err = f.d.Sweep(ctx, nil)
				require.NoError(t, err)
				require.EqualValues(t, 1, got.Forgotten)
			}
		}
		_, err := byDo(ctx, f.d, notKept("k"))
		require.NoError(t, err)
		require.Equal(t, 3, f.effects(t, "k"))
	})
}

func second(_ dedup.Result[ticket], err error) error { return err }

// TestNotKeptIsResolvedWithoutResult: an operator's result is not stored either, if the call or the
// operator's Deduper keeps no answer.
func TestNotKeptIsResolvedWithoutResult(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		keepsNone := f.peer(t, func(o *dedup.Options) { o.Retention.Result = -1 })
		for _, row := range []struct {
			call dedup.Call
			by   *dedup.Deduper
			kept bool
		}{{notKept("call"), f.d, false}, {call("deduper"), keepsNone, false}, {call("neither"), f.d, true}} {
			_, err := dedup.Do(ctx, f.d, row.call, func(ctx context.Context, tx pgx.Tx) (ticket, error) {
				_, err := tx.Conn().Exec(ctx, "COMMIT")
				return ticket{}, err
			})
			require.ErrorIs(t, err, dedup.ErrBroken)
			resolved, err := row.by.Resolve(ctx, row.call.Scope, row.call.Tool, row.call.Key, ticket{ID: 9}, dedup.ChangeOptions{Reason: "completed by hand"})
			require.NoError(t, err)
			require.True(t, resolved)
			require.Equal(t, row.kept, scalar[bool](t, f.bundle, `SELECT result IS NOT NULL FROM tool_dedup WHERE key = $1`, row.call.Key))
			got, err := byDo(ctx, f.d, row.call)
			if row.kept {
				require.NoError(t, err)
				require.Equal(t, 9, got.Value.ID)
				continue
			}
			require.ErrorIs(t, err, dedup.ErrExpired)
			require.ErrorContains(t, err, "its answer was not kept")
		}
	})
}
