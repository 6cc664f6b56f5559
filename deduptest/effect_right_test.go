package deduptest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/deduptest"
	"github.com/tooldedup/dedup/external"
)

// usualEffects are the tools of TestRightEffectsPass: one for each way to find out the outcome.
var usualEffects = []string{"KeyForADay", "Lookup", "Neither"}

// TestRightEffectsPass has a right tool for each kind of provider.
func TestRightEffectsPass(t *testing.T) {
	t.Parallel()
	testRightEffects(t, true)
}

func TestLongRightEffectsPass(t *testing.T) {
	t.Parallel()
	testRightEffects(t, false)
}

func testRightEffects(t *testing.T, areUsual bool) {
	t.Helper()
	type effectOf = deduptest.Effect[refund, refunded]
	late := func() *deduptest.Provider {
		return &deduptest.Provider{ActsLate: 8 * time.Minute, SeesLate: time.Minute, Refuses: true}
	}
	for name, tt := range map[string]struct {
		provider *deduptest.Provider
		declare  func(*refunds, *effectOf)
	}{
		"KeyForADay": {
			&deduptest.Provider{KeyKept: 24 * time.Hour, Refuses: true},
			func(_ *refunds, e *effectOf) { e.Tool.KeyKept = 24 * time.Hour },
		},
		"KeyForever": {
			&deduptest.Provider{KeyKept: external.Forever},
			func(_ *refunds, e *effectOf) { e.Tool.KeyKept = external.Forever },
		},
		"WithoutBody": {
			&deduptest.Provider{KeyKept: 24 * time.Hour, Refuses: true},
			func(c *refunds, e *effectOf) { c.bodyless, e.Tool.KeyKept = true, 24*time.Hour },
		},
		"KeyAndLate": {
			&deduptest.Provider{KeyKept: time.Hour, ActsLate: 10 * time.Minute},
			func(_ *refunds, e *effectOf) { e.Tool.KeyKept, e.Tool.Settles = time.Hour, 10*time.Minute },
		},
		"KeyAndLookup": {
			&deduptest.Provider{KeyKept: 15 * time.Minute, ActsLate: 4 * time.Minute},
			func(c *refunds, e *effectOf) {
				e.Tool.KeyKept = 15 * time.Minute
				finding(c, e, 5*time.Minute)
			},
		},
		"LookupSettles": {late(), func(c *refunds, e *effectOf) { finding(c, e, 10*time.Minute) }},
		"Lookup":        {late(), func(c *refunds, e *effectOf) { finding(c, e, 0) }},
		"Neither":       {late(), func(*refunds, *effectOf) {}},
		"ShortLease":    {late(), func(c *refunds, e *effectOf) { e.Lease = 10 * time.Second; finding(c, e, 10*time.Minute) }},
		"Finish": {&deduptest.Provider{KeyKept: time.Hour}, func(_ *refunds, e *effectOf) {
			e.Tool.KeyKept = time.Hour
			e.Tool.Finish = func(ctx context.Context, tx pgx.Tx, _ refund, r refunded) error {
				_, err := tx.Exec(ctx, `INSERT INTO seen VALUES ($1)`, r.ID) // a second row fails
				return err
			}
		}},
	} {
		if slices.Contains(usualEffects, name) != areUsual {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, e := refundEffect(t, "refund", tt.provider)
			tt.declare(c, &e)
			report := deduptest.VerifyEffect(t, setup(t).url, e)
			require.Empty(t, report.Failed())
			for _, o := range report.Scenarios {
				require.Positive(t, o.Cases, o.Scenario)
				require.Positive(t, o.Faults, o.Scenario)
				require.Greater(t, o.Calls, o.Cases, o.Scenario)
			}
		})
	}
}
