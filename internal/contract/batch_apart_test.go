package contract_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// separateWays are those in which effect and record are statements of their own.
func separateWays() []batchWay {
	return []batchWay{
		{variant: plain, separate: true},
		{variant: variant{order: dedup.LockFirst, isolation: pgx.Serializable}},
		{variant: variant{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}},
	}
}

// A call whose record may be forgotten and that has a twin in flight is answered
// like any other, and costs the calls beside it nothing, whatever becomes of their
// connection.
func TestBatchForgottenInFlight(t *testing.T) {
	t.Parallel()

	for _, w := range separateWays() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, w.variant, &dedup.Options{SeparateStatements: w.separate, CommitTimeout: time.Second, Retry: quickRetry})
			f.exec(t, fixtureSQL)
			direct := f.direct(t)
			old, fresh := single("old"), single("fresh")
			_, err := dedup.DoStatement[ticket](ctx, direct, old.Call, old.Statement)
			require.NoError(t, err)
			f.age(t, "old", "2000 hours")
			held := newGate()
			twin := start(ctx, direct, old.Call, (&tool{ref: "old", then: held.then}).run)
			receive(t, ctx, held.entered)

			old.Call.MaxWait = -1
			cut := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("INSERT INTO effects")})
			var errs []error
			for out := range dedup.DoBatch[ticket](ctx, f.d, slices.Values([]dedup.StatementCall{old, fresh}), nil) {
				errs = append(errs, out.Err)
			}
			require.Len(t, errs, 2)
			require.ErrorIs(t, errs[0], dedup.ErrInFlight)
			require.NoError(t, errs[1])
			require.Equal(t, 1, f.effects(t, "fresh"))
			require.Equal(t, 1, cut.Count())
			held.release()
			require.False(t, receive(t, ctx, twin).require(t).Replayed)
			require.Equal(t, 2, f.effects(t, "old"))
		})
	}
}
