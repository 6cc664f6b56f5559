package deduptest_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
	"github.com/tooldedup/dedup/external"
)

// usualMistakes are the tools of TestWrongEffectsFail: one for each scenario that finds a mistake.
var usualMistakes = []string{"KeyPerAttempt", "FindByInput", "EveryOtherStatusRefuses", "SettlesTooShort", "FinalWhereUnknown", "KeyKeptTooLong", "SameInput", "RefusalIsAnError", "FinishPastItsTransaction", "PerformRetries"}

// TestWrongEffectsFail has tools with one mistake each.
func TestWrongEffectsFail(t *testing.T) {
	t.Parallel()
	testWrongEffects(t, true)
}

func TestLongWrongEffectsFail(t *testing.T) {
	t.Parallel()
	testWrongEffects(t, false)
}

func testWrongEffects(t *testing.T, areUsual bool) {
	t.Helper()
	type effectOf = deduptest.Effect[refund, refunded]
	keys := func() *deduptest.Provider { return &deduptest.Provider{KeyKept: time.Hour} }
	none := func() *deduptest.Provider { return &deduptest.Provider{} }
	late := func() *deduptest.Provider { return &deduptest.Provider{ActsLate: 10 * time.Minute} }
	for name, tt := range map[string]struct {
		provider *deduptest.Provider
		wrong    func(*refunds, *effectOf)
		failed   []deduptest.Scenario // at least these
		says     string
	}{
		"PerformRetries": {none(), func(c *refunds, e *effectOf) {
			e.Tool.Perform = func(ctx context.Context, a external.Attempt, in refund) (out refunded, err error) {
				for range 3 {
					if out, err = c.send(ctx, a.Key, in); err == nil {
						return out, nil
					}
				}
				return out, err
			}
		}, []deduptest.Scenario{"request lost", "answer lost"}, "it happened 2 times, and nothing reports it"},
		"PerformRetriesWithKey": {keys(), func(c *refunds, e *effectOf) {
			e.Tool.KeyKept = time.Hour
			e.Tool.Perform = func(ctx context.Context, a external.Attempt, in refund) (out refunded, err error) {
				if out, err = c.send(ctx, a.Key, in); err != nil {
					return c.send(ctx, a.Key, in)
				}
				return out, nil
			}
		}, []deduptest.Scenario{"answer lost"}, "Perform must not retry"},
		"KeyPerAttempt": {keys(), func(c *refunds, e *effectOf) {
			e.Tool.KeyKept = time.Hour
			e.Tool.Perform = func(ctx context.Context, a external.Attempt, in refund) (refunded, error) {
				return c.send(ctx, a.Key+time.Now().String(), in)
			}
		}, []deduptest.Scenario{"answer lost", "process killed"}, "it happened 2 times"},
		"FindByInput": {none(), func(c *refunds, e *effectOf) {
			c.reference = func(_ string, in refund) string { return in.Order }
			finding(c, e, time.Minute)
		}, []deduptest.Scenario{"equal inputs"}, "and the provider's book has no such effect of it"},
		"EveryOtherStatusRefuses": {keys(), func(c *refunds, e *effectOf) {
			e.Tool.KeyKept = time.Hour
			e.Tool.Perform = func(ctx context.Context, a external.Attempt, in refund) (refunded, error) {
				out, err := c.send(ctx, a.Key, in)
				if err != nil && !errors.As(err, new(*url.Error)) {
					return out, dedup.Final(err)
				}
				return out, err
			}
		}, []deduptest.Scenario{"error answered"}, "it fails with 500 after it happened: it is recorded as refused, and it happened"},
		"FindLies": {none(), func(c *refunds, e *effectOf) {
			finding(c, e, time.Minute)
			e.Tool.Find = func(context.Context, external.Attempt, refund) ([]refunded, error) { return nil, nil }
		}, []deduptest.Scenario{"answer lost", "process killed"}, "it happened 2 times, and nothing reports it"},
		"FindLiesWhenItFails": {none(), func(c *refunds, e *effectOf) {
			finding(c, e, time.Minute)
			e.Tool.Find = func(ctx context.Context, a external.Attempt, in refund) ([]refunded, error) {
				found, err := c.find(ctx, a.Key, in)
				if err != nil {
					return nil, nil //nolint:nilerr // that is what is wrong
				}
				return found, nil
			}
		}, []deduptest.Scenario{"answer lost"}, "two look-ups fail: it happened 2 times"},
		"SettlesTooShort": {late(), func(c *refunds, e *effectOf) { finding(c, e, time.Minute) },
			[]deduptest.Scenario{"late effect"}, "it happened 2 times; it is reported as twice"},
		"FinalWhereUnknown": {none(), func(c *refunds, e *effectOf) {
			c.http = &http.Client{} // a Transport would report it
			e.Tool.Perform = func(ctx context.Context, a external.Attempt, in refund) (refunded, error) {
				out, err := c.send(ctx, a.Key, in)
				return out, dedup.Final(err)
			}
		}, []deduptest.Scenario{"answer lost"}, "it is recorded as refused, and it happened"},
		"NotDoneWhereUnknown": {none(), func(c *refunds, e *effectOf) {
			c.http = &http.Client{} // a Transport would report it
			e.Tool.Perform = func(ctx context.Context, a external.Attempt, in refund) (refunded, error) {
				out, err := c.send(ctx, a.Key, in)
				return out, external.NotDone(err)
			}
		}, []deduptest.Scenario{"answer lost"}, "it happened 2 times"},
		"SuccessWhereUnknown": {none(), func(c *refunds, e *effectOf) {
			e.Tool.Perform = func(ctx context.Context, a external.Attempt, in refund) (refunded, error) {
				out, err := c.send(ctx, a.Key, in)
				if err != nil {
					return refunded{"pending"}, nil //nolint:nilerr // that is what is wrong
				}
				return out, nil
			}
		}, []deduptest.Scenario{"request lost", "answer lost"}, `it is recorded as "pending", and the provider's book has`},
		"KeyKeptTooLong": {keys(), func(_ *refunds, e *effectOf) { e.Tool.KeyKept = time.Hour + 10*time.Second },
			[]deduptest.Scenario{"key forgotten"}, "it happened 2 times"},
		"KeyKeptForEver": {keys(), func(_ *refunds, e *effectOf) { e.Tool.KeyKept = external.Forever },
			[]deduptest.Scenario{"key forgotten"}, "it happened 2 times"},
		"NoKeys": {none(), func(_ *refunds, e *effectOf) { e.Tool.KeyKept = time.Hour },
			[]deduptest.Scenario{"answer lost", "process killed"}, "it happened 2 times"},
		"ReplayIsAnError": {keys(), func(c *refunds, e *effectOf) {
			e.Tool.KeyKept = time.Hour
			sent := map[string]bool{}
			e.Tool.Perform = func(ctx context.Context, a external.Attempt, in refund) (refunded, error) {
				out, err := c.send(ctx, a.Key, in)
				if sent[a.Key] {
					return out, external.ErrExists
				}
				sent[a.Key] = true
				return out, err
			}
		}, []deduptest.Scenario{"answer lost"}, "it is parked, and its key is still kept"},
		"RefusalIsAnError": {&deduptest.Provider{KeyKept: time.Hour, Refuses: true}, func(c *refunds, e *effectOf) {
			e.Tool.KeyKept = time.Hour
			e.Tool.Perform = func(ctx context.Context, a external.Attempt, in refund) (refunded, error) {
				out, err := c.send(ctx, a.Key, in)
				if err != nil {
					return out, errors.New(err.Error())
				}
				return out, nil
			}
		}, []deduptest.Scenario{"refused"}, "it is parked, and no attempt was disturbed"},
		"FinishPastItsTransaction": {keys(), func(c *refunds, e *effectOf) {
			e.Tool.KeyKept = time.Hour
			e.Tool.Finish = func(ctx context.Context, _ pgx.Tx, in refund, _ refunded) error {
				_, err := c.pool.Exec(ctx, `INSERT INTO seen VALUES ($1)`, in.Order) // a second row fails
				return err
			}
		}, []deduptest.Scenario{"process killed"}, "it is parked, and its key is still kept"},
		"SameInput": {none(), func(_ *refunds, e *effectOf) { e.In = func(int) refund { return refund{"order"} } },
			[]deduptest.Scenario{"repeated"}, "does Effect.In depend on n?"},
	} {
		if slices.Contains(usualMistakes, name) != areUsual {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, e := refundEffect(t, "refund", tt.provider)
			b := setup(t)
			c.pool = b.pool
			tt.wrong(c, &e)
			r := &recorder{t: t}
			report := deduptest.VerifyEffect(r, b.url, e)
			require.Empty(t, r.fatal)
			require.Subset(t, report.Failed(), tt.failed)
			require.Contains(t, strings.Join(r.errors, "\n"), tt.says)
		})
	}
}

// TestEffectsThatCannotBeTried: the error names the missing part.
func TestEffectsThatCannotBeTried(t *testing.T) {
	t.Parallel()
	type effectOf = deduptest.Effect[refund, refunded]
	for says, wrong := range map[string]func(*effectOf){
		"Effect.Provider is nil":  func(e *effectOf) { e.Provider = nil },
		"Effect.In is nil":        func(e *effectOf) { e.In = nil },
		"Effect.Tool.Ref is nil":  func(e *effectOf) { e.Tool.Ref = nil },
		"Name is empty":           func(e *effectOf) { e.Tool.Name = "" },
		"Provider.Act was never":  func(e *effectOf) { e.Tool.Perform = answered },
		"without any fault fails": func(e *effectOf) { e.Tool.Perform = failing },
		"Effect.Lease":            func(e *effectOf) { e.Lease = time.Nanosecond },
		"Effect.Options":          func(e *effectOf) { e.Options = &dedup.Options{MaxResultBytes: -1} },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			_, e := refundEffect(t, "refund", &deduptest.Provider{})
			wrong(&e)
			r := &recorder{t: t}
			require.Nil(t, deduptest.VerifyEffect(r, setup(t).url, e))
			require.Contains(t, r.fatal, says)
		})
	}
}

func answered(context.Context, external.Attempt, refund) (refunded, error) { return refunded{"1"}, nil }

func failing(context.Context, external.Attempt, refund) (refunded, error) {
	return refunded{}, dedup.Final(errors.New("no"))
}
