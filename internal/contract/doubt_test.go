package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// onItsWay makes a call whose statement is still on its way when the caller gives up.
// It can be released then.
func onItsWay(t *testing.T, ctx context.Context, f *fixture, proxy *faultproxy.Proxy, do func(ctx context.Context) error) (*faultproxy.Armed, *dedup.OutcomeUnknownError) {
	t.Helper()
	// Once the CancelRequest that pgx sends has passed, none can meet the unit.
	late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Delayed, Where: func(u faultproxy.Unit) bool {
		if !faultproxy.AtSQL("a twin of this call is in flight")(u) {
			return false
		}
		proxy.Refuse(true)
		return true
	}})
	err := do(ctx)
	proxy.Refuse(false)
	var unknown *dedup.OutcomeUnknownError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, 1, late.Count())
	return late, unknown
}

// waysToSendWhole are the ways in which a call is sent without a lock that anybody sees.
var waysToSendWhole = map[string]func(ctx context.Context, d *dedup.Deduper) error{
	"DoStatement": func(ctx context.Context, d *dedup.Deduper) error {
		_, err := dedup.DoStatement[ticket](ctx, d, call("k"), leave("k"))
		return err
	},
	"DoBatch": func(ctx context.Context, d *dedup.Deduper) error {
		var errs []error
		for out := range dedup.DoBatch[ticket](ctx, d, func(yield func(dedup.StatementCall) bool) {
			_ = yield(dedup.StatementCall{Call: call("j"), Statement: leave("j")}) && yield(dedup.StatementCall{Call: call("k"), Statement: leave("k")})
		}, nil) {
			errs = append(errs, out.Err)
		}
		return errors.Join(errs...)
	},
}

// TestNotFoundOfAStatementOnItsWay: a statement that is on its way holds no lock. It can
// commit until a certain time by the database's clock, which the caller is told, and
// not after it.
func TestNotFoundOfAStatementOnItsWay(t *testing.T) {
	t.Parallel()

	look := func(t *testing.T, ctx context.Context, d *dedup.Deduper) dedup.Status {
		t.Helper()
		status, err := d.Lookup(ctx, "acme", "create_ticket", "k")
		require.NoError(t, err)
		return status
	}
	retry := quickRetry
	retry.MaxAttempts = 3
	for way, do := range waysToSendWhole {
		for _, mode := range execModes {
			t.Run(way+"/"+mode.String()+"/InTime", func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, variant{mode: mode}, &dedup.Options{Retry: retry, CommitTimeout: time.Hour})
				f.countRuns(t)
				f.warm(t)
				late, unknown := onItsWay(t, ctx, f, proxy, func(ctx context.Context) error { return do(ctx, f.d) })
				status := look(t, ctx, f.d)
				require.Equal(t, dedup.StateNotFound, status.State)
				require.True(t, unknown.Until.After(status.Now), "%s, %s", unknown.Until, status.Now)
				require.WithinDuration(t, status.Now, unknown.Until, time.Hour)
				late.Release()
				require.NoError(t, late.WaitSettled(ctx))
				require.Equal(t, dedup.StateDone, look(t, ctx, f.d).State)
				require.Equal(t, 1, f.effects(t, "k"))
			})

			t.Run(way+"/"+mode.String()+"/TooLate", func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, variant{mode: mode}, &dedup.Options{Retry: retry, CommitTimeout: time.Second})
				f.countRuns(t)
				f.warm(t)
				late, unknown := onItsWay(t, ctx, f, proxy, func(ctx context.Context) error { return do(ctx, f.d) })
				f.eventually(t, `SELECT clock_timestamp() > $1`, unknown.Until)
				status := look(t, ctx, f.d)
				require.Equal(t, dedup.StateNotFound, status.State)
				late.Release()
				require.NoError(t, late.WaitSettled(ctx))
				require.Equal(t, dedup.StateNotFound, look(t, ctx, f.d).State)
				require.Zero(t, f.effects(t, "k"))
				require.Zero(t, f.effects(t, "j"))
				require.True(t, status.Now.After(unknown.Until))
			})
		}
	}
}

// TestDoubtEnds: an attempt that has the identity to itself after the statement of an
// earlier one can no longer be committed proves that it was not.
func TestDoubtEnds(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: quickRetry, CommitTimeout: 200 * time.Millisecond})
	f.countRuns(t)
	f.warm(t)
	late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Delayed, Where: isWhole})
	second := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtSQL("pg_try_advisory_xact_lock(")})
	pending := startStatement(ctx, f.d, call("k"), dedup.SQL(`SELECT 1 / 0 AS id`))
	require.NoError(t, second.Wait(ctx))
	now := scalar[time.Time](t, f.bundle, `SELECT clock_timestamp()`)
	f.eventually(t, `SELECT clock_timestamp() > $1::timestamptz + interval '200 ms'`, now)
	second.Release()
	a := receive(t, ctx, pending)
	requireState(t, a.err, "22012")
	require.NotErrorIs(t, a.err, dedup.ErrOutcomeUnknown)
	late.Release()
	require.NoError(t, late.WaitSettled(ctx))
	require.Equal(t, 1, f.records(t))
}
