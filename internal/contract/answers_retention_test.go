package contract_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

const day = 24 * time.Hour

// keptFor reads how long a record is kept and remembered, by its own times.
func keptFor(t *testing.T, b *bundle, key string) dedup.Retention {
	t.Helper()
	read := func(from, to string) time.Duration {
		micros := scalar[int64](t, b, `SELECT round(extract(epoch FROM `+to+` - `+from+`) * 1000000)::bigint FROM tool_dedup WHERE key = $1`, key)
		return time.Duration(micros) * time.Microsecond
	}
	return dedup.Retention{Result: read("created_at", "expires_at"), Tombstone: read("expires_at", "forget_at")}
}

func TestRetention(t *testing.T) {
	t.Parallel()

	ctx, b := setup(t, nil)
	for name, row := range map[string]struct {
		option, call, want dedup.Retention
	}{
		"Default":              {want: dedup.Retention{Result: day, Tombstone: 30 * day}},
		"ResultOnly":           {call: dedup.Retention{Result: time.Hour}, want: dedup.Retention{Result: time.Hour, Tombstone: 30 * day}},
		"Option":               {option: dedup.Retention{Result: time.Minute, Tombstone: time.Hour}, want: dedup.Retention{Result: time.Minute, Tombstone: time.Hour}},
		"CallOverrides":        {option: dedup.Retention{Result: 7 * 24 * time.Hour}, call: dedup.Retention{Result: time.Second, Tombstone: time.Second}, want: dedup.Retention{Result: time.Second, Tombstone: time.Second}},
		"CallsTombstoneOnly":   {option: dedup.Retention{Result: 7 * 24 * time.Hour}, call: dedup.Retention{Tombstone: time.Second}, want: dedup.Retention{Result: 7 * day, Tombstone: time.Second}},
		"CallsResultOnly":      {option: dedup.Retention{Result: time.Second, Tombstone: time.Second}, call: dedup.Retention{Result: time.Hour}, want: dedup.Retention{Result: time.Hour, Tombstone: time.Second}},
		"NoTombstone":          {call: dedup.Retention{Result: time.Hour, Tombstone: -1}, want: dedup.Retention{Result: time.Hour}},
		"NoTombstoneAsOption":  {option: dedup.Retention{Tombstone: -1}, want: dedup.Retention{Result: day}},
		"Shortest":             {call: dedup.Retention{Result: time.Millisecond}, want: dedup.Retention{Result: time.Millisecond, Tombstone: 30 * day}},
		"Longest":              {call: dedup.Retention{Result: 36500 * day, Tombstone: 36500 * day}, want: dedup.Retention{Result: 36500 * day, Tombstone: 36500 * day}},
		"NanosecondsAreCutOff": {call: dedup.Retention{Result: time.Second + 1999, Tombstone: time.Second + 999}, want: dedup.Retention{Result: time.Second + 1000, Tombstone: time.Second + 1000}},
	} {
		for _, order := range []orderKind{lockFirst, claimFirst} {
			t.Run(name+"/"+string(order), func(t *testing.T) {
				t.Parallel()
				c := call(name + string(order))
				c.Retention = row.call
				d := newDeduper(t, b.db.Pool(t, order.configure), &dedup.Options{Retention: row.option})
				result, err := dedup.Do(ctx, d, c, effect("k"))
				require.NoError(t, err)
				got := keptFor(t, b, c.Key)
				require.Equal(t, row.want, got)
				require.Equal(t, got.Result, result.ExpiresAt.Sub(result.CreatedAt))
			})
		}
	}
}

// resetting is a Reset that runs on another goroutine.
type resetting struct {
	freed bool
	err   error
}

// startReset frees the key "k".
func startReset(f *fixture, t *testing.T, by *dedup.Deduper) <-chan resetting {
	t.Helper()
	ctx := t.Context()
	out := make(chan resetting, 1)
	go func() {
		freed, err := by.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong answer"})
		out <- resetting{freed, err}
	}()
	return out
}

// TestReset: Reset deletes only the record that CreatedAt names.
func TestReset(t *testing.T) {
	t.Parallel()

	// While an operator's Reset is on its way, another one frees the identity
	// and the call runs again.
	t.Run("KeepsANewRecord", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f, proxy := proxied(t, p, nil)
			direct := f.direct(t)
			e := &tool{ref: "k"}
			_, err := dedup.Do(ctx, direct, call("k"), e.run)
			require.NoError(t, err)
			held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtSQL("DELETE FROM")})
			late := startReset(f, t, f.d)
			require.NoError(t, held.Wait(ctx))

			freed, err := direct.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong answer"})
			require.NoError(t, err)
			require.True(t, freed)
			_, err = dedup.Do(ctx, direct, call("k"), e.run)
			require.NoError(t, err)
			held.Release()
			got := receive(t, ctx, late)
			require.NoError(t, got.err)
			require.False(t, got.freed)

			again, err := dedup.Do(ctx, direct, call("k"), e.run)
			require.NoError(t, err)
			require.True(t, again.Replayed)
			require.Equal(t, 2, again.Value.ID)
			e.requireRuns(t, 2)
		})
	})

	// Without CreatedAt of a record nothing is deleted: the call may be recorded at any moment.
	t.Run("OfNothing", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f, proxy := proxied(t, p, nil)
			proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("DELETE FROM")})
			freed, err := f.d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong answer"})
			require.NoError(t, err)
			require.False(t, freed)
		})
	})

	t.Run("TwoOperators", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f, proxy := proxied(t, p, nil)
			_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
			require.NoError(t, err)
			freed := 0
			var held []*faultproxy.Armed
			var operators []<-chan resetting
			for range 2 {
				one := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtSQL("DELETE FROM")})
				operators = append(operators, startReset(f, t, f.peer(t)))
				require.NoError(t, one.Wait(ctx))
				held = append(held, one)
			}
			for _, one := range held {
				one.Release()
			}
			for _, operator := range operators {
				got := receive(t, ctx, operator)
				require.NoError(t, got.err)
				if got.freed {
					freed++
				}
			}
			require.Equal(t, 1, freed)
			require.Zero(t, f.records(t))
		})
	})
}

// TestForgottenBeforeItIsFound: the answer to a COMMIT is lost, and the record is
// forgotten before the call has looked for it. The call must not take its own
// record for an old one and run again, whether a sweep has deleted it or not.
func TestForgottenBeforeItIsFound(t *testing.T) {
	t.Parallel()

	for name, do := range ways {
		for _, order := range []orderKind{lockFirst, claimFirst} {
			if order == claimFirst && name != "Do" {
				continue
			}
			for _, swept := range []bool{false, true} {
				t.Run(fmt.Sprint(name, "-", order, "-", swept), func(t *testing.T) {
					t.Parallel()
					ctx, f, proxy := proxied(t, profile{order: order, isolation: pgx.ReadCommitted}, nil, poolOfOne)

					// The COMMIT goes through and its answer is lost. The next connection waits.
					lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: atRecord})
					connecting := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtConnect})
					c := call("k")
					c.Retention = dedup.Retention{Result: 50 * time.Millisecond, Tombstone: -1}
					pending := do.start(ctx, f.d, c)
					require.NoError(t, lost.Wait(ctx))
					require.NoError(t, connecting.Wait(ctx))
					f.eventually(t, `SELECT count(*) FILTER (WHERE key = 'k') = 1 AND bool_and(forget_at <= now()) FROM tool_dedup`)
					if swept {
						swept, err := f.direct(t).Sweep(ctx, nil)
						require.NoError(t, err)
						require.Positive(t, swept.Forgotten)
					}
					connecting.Release()

					err := receive(t, ctx, pending).err
					require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
					require.ErrorContains(t, err, "Retention")
					require.Equal(t, 1, f.effects(t, "k"))
				})
			}
		}
	}
}
