package deduptest

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// VerifyEffect tries a tool whose effect is outside of the database, on the scratch
// database that a postgres:// URL names: one with tool_dedup, tool_effect and what the tool
// itself writes to. Its demands on the database are those of [Verify], and so is what it
// does with failures.
//
// Each case has a fresh key and an input of its own. It disturbs one call, has other
// processes go on with it as production's would, with all the time that the tool's leases,
// KeyKept and Settles give them, and then compares the record with the provider's book:
//
//   - It happened once at most, and exactly once where the record says that it happened.
//   - Every caller has got the recorded answer.
//   - It is parked only where neither a key nor a look-up could tell what became of it.
//   - An attempt has made one request at most.
//
// What is tried: calls again, at once and with another input; requests and answers that are
// lost; errors that are answered before and after it happened; equal inputs; look-ups that fail;
// effects that come late; processes that die at each step of a call; a process that comes back
// when the key is about to be forgotten, and when it is; refusals.
//
// No time is waited for: the operation's row is made older instead, and the provider's
// clock put forward. So the tool keeps the times of production. A process dies by a panic at
// the step, after which nothing of it acts.
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
		report.add(t, play.scenario, func(ctx context.Context, out *Outcome) {
			play.run(&effectScene{v: v, ctx: ctx, out: out})
		})
	}
	return report
}

// effectVerification is one VerifyEffect on its way.
type effectVerification struct {
	tool   *outside
	direct *pgxpool.Pool // past every fault, for making rows older
	// one is the process that meets the faults, other the one that goes on.
	one, other *instance
	run        string
	cases      int
}

func newEffectVerification(ctx context.Context, url string, erase func() (*outside, error)) (v *effectVerification, err error) {
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

// rehearse makes calls without faults. The first call of a process also looks at the tables.
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
