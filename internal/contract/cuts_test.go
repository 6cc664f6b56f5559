package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// cutStride is the distance in bytes between two cuts of TestLongCuts. It is a prime, so that the
// ways and exec modes, which begin at different bytes, are not all cut at the same places.
const cutStride = 127

// cuttable are the ways to call that TestLongCuts cuts.
var cuttable = map[string]way{
	"Do": byDo, "DoStatement": byStatement, "DoBatch": byBatchOfTwo, "BeginFunc": byTx,
	"DoTx": func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
		return byCallersTx(ctx, d, c)
	},
	"DoTxTwice": func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (dedup.Result[ticket], error) {
		return byCallersTx(ctx, d, c, " beside")
	},
}

// byCallersTx makes a call in a transaction of the caller's, and after it one call for each suffix
// of its key.
func byCallersTx(ctx context.Context, d *dedup.Deduper, c dedup.Call, suffixes ...string) (result dedup.Result[ticket], err error) {
	err = pgx.BeginFunc(ctx, d.Pool(), func(tx pgx.Tx) (err error) {
		result, err = dedup.DoTx(ctx, d, tx, c, effectOf(single(c.Key)))
		for _, suffix := range suffixes {
			other := c
			other.Key += suffix
			_, otherErr := dedup.DoTx(ctx, d, tx, other, effectOf(single(other.Key)))
			err = errors.Join(err, otherErr)
		}
		return err
	})
	return result, err
}

// insist repeats a call until it has an answer, as an orchestrator does.
func (w way) insist(t *testing.T, ctx context.Context, d *dedup.Deduper, c dedup.Call) dedup.Result[ticket] {
	t.Helper()
	for {
		result, err := w(ctx, d, c)
		if err == nil {
			return result
		}
		if !assert.NoError(t, ctx.Err(), "%v", err) {
			return result
		}
	}
}

// TestLongCuts cuts the connection at every cutStride-th byte of a call, in each direction, for
// every way to call in every exec mode. The call is repeated until it has an answer. There is one
// effect, and every later answer is its answer.
func TestLongCuts(t *testing.T) {
	t.Parallel()
	first := int64(0)
	for _, mode := range execModes {
		for name, do := range cuttable {
			first = (first + 31) % cutStride
			t.Run(name+"-"+mode.String(), func(t *testing.T) {
				t.Parallel()
				cutEverywhere(t, mode, do, first, ways[name] != nil)
			})
		}
	}
}

// cutEverywhere cuts calls at every cutStride-th byte, beginning at first. ownCommit is true if the
// call commits by itself.
func cutEverywhere(t *testing.T, mode pgx.QueryExecMode, do way, first int64, ownCommit bool) {
	ctx, f, proxy := proxied(t, profile{isolation: pgx.ReadCommitted, mode: mode}, &dedup.Options{Retry: quickRetry}, poolOfOne)
	key := func(direction faultproxy.Direction, n int64) string { return fmt.Sprintf("%d-%06d", direction, n) }
	const warm = faultproxy.Direction(9)
	for n := range int64(3) { // statements are prepared and plans are cached after these
		proxy.Reset()
		_, err := do(ctx, f.d, call(key(warm, n)))
		require.NoError(t, err)
	}
	seen := proxy.Snapshot()
	calls, cuts, recovered := 3, 0, 0
	for direction, bytes := range map[faultproxy.Direction]int64{faultproxy.ToServer: seen.BytesToServer, faultproxy.ToClient: seen.BytesToClient} {
		for n := first; n < bytes; n += cutStride {
			cut := proxy.Arm(faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: direction, Bytes: n})
			answer := do.insist(t, ctx, f.d, call(key(direction, n)))
			cut.Disarm()
			cuts += cut.Count()
			if ownCommit {
				require.Equal(t, answer.Recovered, answer.Replayed, "no twin called")
			}
			if answer.Recovered {
				recovered++
			}
			again := do.insist(t, ctx, f.d, call(key(direction, n)))
			require.True(t, again.Replayed)
			require.Equal(t, answer.Value, again.Value)
			calls++
		}
	}
	require.Positive(t, cuts)
	t.Logf("%d cuts of %d bytes to the server and %d to the client, %d answers recovered", cuts, seen.BytesToServer, seen.BytesToClient, recovered)
	perCall := scalar[int](t, f.bundle, `SELECT count(*) FROM effects WHERE ref IN ($1, $1 || ' beside')`, key(warm, 0))
	f.exactly(t, calls*perCall)
}
