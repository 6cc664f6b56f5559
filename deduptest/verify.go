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

// Options configure [Verify]. A nil *Options and every zero field mean the
// documented default.
type Options struct {
	// Without names scenarios that are not to be run. It is the only way to leave
	// one out: a scenario that cannot be run fails. Default none.
	Without []Scenario
	// Patience bounds a single call, with all that it retries by itself. A call that
	// takes twice as long fails as stuck. Default 15 s, which is more than
	// dedup.Options.CommitTimeout; at most 1 h.
	Patience time.Duration
}

const defaultPatience = 15 * time.Second

// Verify tries tool in every scenario, on the database that a postgres:// URL
// names. It has the tool's own tables and tool_dedup, is scratch, and nothing else
// writes to it meanwhile: the calls' rows stay. The server is to be reached
// directly, without TLS.
//
// Each scenario is a subtest of its name where t is a *testing.T, so that -run chooses among them.
// One that fails is an error: it says which call of which case had what effects and answers.
// What cannot be tried at all is fatal: a tool without a function, a database that cannot be
// reached, a tool whose plain call fails. The report tells the same as values; it is nil after such
// a fatal error.
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
		run := func(ctx context.Context, out *Outcome) {
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

// verification is one Verify on its way through the scenarios.
type verification struct {
	tool     Tool
	url      string
	direct   *pgxpool.Pool // past every fault, for counting
	without  []Scenario
	patience time.Duration
	plan     plan

	run  string // names this run's keys and sessions
	keys int    // handed out so far
	// counted is the number of effects after the last case, -1 where calls were made
	// since.
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
