package deduptest

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// VerifyEffect tests a tool whose effect is outside the database. databaseURL is the postgres://
// URL of a scratch database with tool_dedup, tool_effect and the tool's own tables. It has the
// requirements of [Verify], and reports failures in the same way.
//
// Each case has a fresh key and its own input. It disturbs one call, and lets another process
// finish the call as in production, with as much time as the tool's leases, KeyKept and Settles
// allow. Then it compares the record with the provider's book:
//
//   - The effect happened at most once, and exactly once if the record says that it happened.
//   - Every caller got the recorded answer.
//   - The operation is parked only if neither a key nor a look-up could find out its outcome.
//   - Each attempt made at most one request.
//
// The disturbances are: repeated calls, at once and with another input; lost requests and answers;
// errors that are answered before and after the effect happened; equal inputs; failing look-ups;
// late effects; processes that die at each step of a call; a process that returns just before and
// just after the provider forgets the key; refusals.
//
// The test does not wait for the declared times: it makes the operation's row older and advances
// the provider's clock. A process dies by ending its goroutine at the step.
func VerifyEffect[In, Out any](t TB, databaseURL string, e Effect[In, Out]) *Report {
	t.Helper()
	v, err := newEffectVerification(t.Context(), databaseURL, e.erase)
	if err != nil {
		t.Fatalf("deduptest: %v", err)
		return nil
	}
	defer v.close()
	report := &Report{Tool: v.tool.name}
	for _, play := range effectPlays() {
		if play.tried != nil && !play.tried(v.tool) {
			continue
		}
		report.add(t, play.scenario, func(ctx context.Context, out *ScenarioReport) {
			play.run(&effectScene{v: v, ctx: ctx, out: out})
		})
	}
	return report
}

// effectVerification is the state of one VerifyEffect.
type effectVerification struct {
	tool   *untypedEffect
	direct *pgxpool.Pool // not through a fault; makes rows older
	// one is the process that meets the faults, and other the one that finishes the call.
	one, other *instance
	run        string
	cases      int
}

func newEffectVerification(ctx context.Context, url string, erase func() (*untypedEffect, error)) (v *effectVerification, err error) {
	v = &effectVerification{run: rand.Text()[:10]}
	if v.tool, err = erase(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if v.direct, err = pgxpool.New(ctx, url); err != nil {
		return v, fmt.Errorf("opening the database: %w", err)
	}
	if v.one, err = v.tool.start(ctx, url); err != nil {
		return v, err
	}
	if v.other, err = v.tool.start(ctx, url); err != nil {
		return v, err
	}
	return v, v.rehearse(ctx)
}

func (v *effectVerification) close() {
	for _, p := range []*instance{v.one, v.other} {
		if p != nil {
			p.close()
		}
	}
	if v.direct != nil {
		v.direct.Close()
	}
}

// rehearse makes a call without faults in each process. A process's first call also checks the
// tables.
func (v *effectVerification) rehearse(ctx context.Context) error {
	for _, p := range []*instance{v.one, v.other} {
		call, n := v.next()
		r := p.call(ctx, call, n)
		if r.err != nil {
			return fmt.Errorf("a call without any fault fails: %w", r.err)
		}
		if asked, _ := v.tool.provider.requests(); asked == 0 {
			return fmt.Errorf("a call was answered %s, and Provider.Act was never called; the fake of the provider's API must call it", r.text)
		}
	}
	return nil
}
