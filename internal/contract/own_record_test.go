package contract_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestShortRetentionGoesApart: a statement that is its own transaction may arrive
// late. It is sent only where its record outlives that.
func TestShortRetentionGoesApart(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	f.countRuns(t)
	whole := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Delay: time.Millisecond, Times: -1, Where: func(u faultproxy.Unit) bool {
		return len(u.Executes) > 0 && faultproxy.AtSQL("a twin of this call is in flight")(u)
	}})
	for i, row := range []struct {
		retention dedup.Retention
		want      int
	}{
		{dedup.Retention{Result: time.Minute, Tombstone: time.Hour - time.Minute - 1000}, 0},
		{dedup.Retention{Result: time.Minute, Tombstone: time.Hour - time.Minute}, 2},
	} {
		one, two, three := call(fmt.Sprint("one-", i)), call(fmt.Sprint("two-", i)), call(fmt.Sprint("three-", i))
		one.Retention, two.Retention, three.Retention = row.retention, row.retention, row.retention
		_, err := dedup.DoStatement[ticket](ctx, f.d, one, leave("one"))
		require.NoError(t, err)
		for _, out := range outcomes(ctx, f.d, dedup.StatementCall{Call: two, Statement: leave("two")}, dedup.StatementCall{Call: three, Statement: leave("three")}) {
			require.NoError(t, out.Err)
		}
		require.Equal(t, row.want, whole.Count())
	}
	require.Equal(t, 6, f.records(t))
}

// TestForgottenBeforeItIsFound: the answer to a COMMIT is lost, and the record is
// forgotten before the call has looked for it. The call must not take its own
// record for an old one and run again, whether a sweep has deleted it or not.
func TestForgottenBeforeItIsFound(t *testing.T) {
	t.Parallel()

	ways := map[string]struct {
		opts dedup.Options
		call func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error
	}{
		"Do": {call: func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
			_, err := dedup.Do(ctx, d, c, effect(c.Key))
			return err
		}},
		"DoClaimFirst": {opts: dedup.Options{Order: dedup.ClaimFirst}, call: func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
			_, err := dedup.Do(ctx, d, c, effect(c.Key))
			return err
		}},
		"DoStatement": {call: func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
			_, err := dedup.DoStatement[ticket](ctx, d, c, leave(c.Key))
			return err
		}},
		"DoBatch": {call: func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
			other := c
			other.Key = "other"
			return outcomes(ctx, d, dedup.StatementCall{Call: c, Statement: leave(c.Key)}, dedup.StatementCall{Call: other, Statement: leave("other")})[0].Err
		}},
		"DoTogether": {call: func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
			_, err := dedup.DoTogether[ticket](ctx, d, []dedup.StatementCall{{Call: c, Statement: leave(c.Key)}})
			return err
		}},
	}
	for name, way := range ways {
		for _, swept := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "", true: "Swept"}[swept], func(t *testing.T) {
				t.Parallel()
				ctx, b := setup(t, nil)
				b.countRuns(t)
				proxy, err := faultproxy.New(b.db.URL)
				require.NoError(t, err)
				t.Cleanup(proxy.Close)
				pool := b.db.Pool(t, func(config *pgxpool.Config) {
					parsed, err := pgxpool.ParseConfig(proxy.URL())
					require.NoError(t, err)
					config.ConnConfig, config.MaxConns = parsed.ConnConfig, 1
					trackCleanups(t, config)
				})
				require.NoError(t, pool.Ping(ctx))
				opts := way.opts
				d := newDeduper(t, pool, &opts)

				// The COMMIT goes through and its answer is lost. The next connection waits.
				lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: func(u faultproxy.Unit) bool {
					return u.Commits || len(u.Executes) > 0 && faultproxy.AtSQL("a twin of this call is in flight")(u)
				}})
				connecting := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtConnect})
				c := call("k")
				c.Retention = dedup.Retention{Result: 50 * time.Millisecond, Tombstone: -1}
				out := make(chan error, 1)
				go func() { out <- way.call(ctx, d, c) }()
				require.NoError(t, lost.Wait(ctx))
				require.NoError(t, connecting.Wait(ctx))
				b.eventually(t, `SELECT count(*) FILTER (WHERE key = 'k') = 1 AND bool_and(forget_at <= now()) FROM tool_dedup`)
				if swept {
					swept, err := b.d.Sweep(ctx, nil)
					require.NoError(t, err)
					require.Positive(t, swept.Forgotten)
				}
				connecting.Release()

				err = receive(t, ctx, out)
				require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
				require.ErrorContains(t, err, "Retention")
				require.Equal(t, 1, b.effects(t, "k"))
			})
		}
	}
}
