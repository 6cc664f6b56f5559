package deduptest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Options configure [Verify]. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Without names scenarios that are not run. There is no other way to leave one out: a scenario
	// that cannot run fails. Default: none.
	Without []Scenario
	// Patience bounds a single call with its own retries. A call that takes twice as long fails as
	// stuck. At most 1 h. Default: 15 s, which exceeds dedup.Options.CommitTimeout.
	Patience time.Duration
}

const defaultPatience = 15 * time.Second

// Verify tests tool in every scenario. databaseURL is the postgres:// URL of a scratch database
// with the tool's own tables and tool_dedup. Nothing else may write to it meanwhile, and the rows
// of the calls remain. The server must be reachable directly, without TLS.
//
// If t is a *testing.T, each scenario is a subtest with its name, so -run can select it. A scenario
// that fails calls t.Errorf with the effects and answers of the failed cases. t.Fatalf is called if
// nothing can be tested: a function is missing, the database cannot be reached, or a call without
// faults fails. Verify returns the same results; the report is nil after t.Fatalf.
func Verify(t TB, databaseURL string, tool Tool, opts *Options) *Report {
	t.Helper()
	v, err := newVerification(t.Context(), databaseURL, tool, opts)
	if err != nil {
		t.Fatalf("deduptest: %v", err)
		return nil
	}
	defer v.direct.Close()
	report := &Report{Tool: tool.Name}
	for _, play := range plays() {
		run := func(ctx context.Context, out *ScenarioReport) {
			sc := &scene{v: v, ctx: ctx, out: out}
			play.run(sc)
			sc.close()
		}
		if slices.Contains(v.without, play.scenario) {
			run = nil
		}
		report.add(t, play.scenario, run)
	}
	return report
}

// verification is the state of one Verify.
type verification struct {
	tool     Tool
	url      string
	direct   *pgxpool.Pool // not through a fault; counts effects
	without  []Scenario
	patience time.Duration
	plan     plan

	run  string // names this run's keys and sessions
	keys int    // the number of keys made so far
	// counted is the number of effects after the last case, or -1 if calls were made since.
	counted int
	tables  tables
}

func newVerification(ctx context.Context, databaseURL string, tool Tool, opts *Options) (*verification, error) {
	v := &verification{tool: tool, url: databaseURL, patience: defaultPatience, run: rand.Text()[:10], counted: -1}
	if err := tool.check(); err != nil {
		return nil, err
	}
	if inChild() {
		return nil, errors.New("Verify in a process that it has started itself; call deduptest.Child in TestMain before anything else")
	}
	if opts != nil {
		v.without = opts.Without
		if opts.Patience < 0 || opts.Patience > time.Hour {
			return nil, errors.New("Options.Patience must not be negative, and be at most 1h")
		}
		if opts.Patience > 0 {
			v.patience = opts.Patience
		}
	}
	for _, scenario := range v.without {
		if !slices.Contains(Scenarios(), scenario) {
			return nil, fmt.Errorf("Options.Without: there is no scenario %q; use the constants", scenario)
		}
	}
	var err error
	if v.direct, err = pgxpool.New(ctx, databaseURL); err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	if v.plan, err = v.rehearse(ctx); err != nil {
		v.direct.Close()
		return nil, err
	}
	return v, nil
}

// count returns the number of effects in the database.
func (v *verification) count(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	n, err := v.tool.Count(ctx, v.direct)
	if err != nil {
		return 0, fmt.Errorf("Tool.Count: %w", err)
	}
	return n, nil
}

func (v *verification) newKey() string {
	v.keys++
	return fmt.Sprintf("deduptest-%s-%d", v.run, v.keys)
}
