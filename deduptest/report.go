package deduptest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Report says what became of every scenario.
type Report struct {
	// Tool is the tool's name.
	Tool string
	// Outcomes are in the order of the scenarios, those that were turned off
	// included.
	Outcomes []Outcome
}

// Failed returns the scenarios that failed.
func (r *Report) Failed() []Scenario {
	var failed []Scenario
	for _, o := range r.Outcomes {
		if len(o.Failures) > 0 {
			failed = append(failed, o.Scenario)
		}
	}
	return failed
}

// Outcome says what became of one scenario.
type Outcome struct {
	Scenario Scenario
	// Off says that Options.Without turned it off, or that go test was run without it.
	Off bool
	// Cases counts keys that were tried, Calls the calls of the tool, Faults what
	// really happened to them: faults, repeats, races.
	Cases, Calls, Faults int
	// Failures say what was wrong, one for each case. Empty when the tool was right.
	Failures []string
	// Took is how long it took.
	Took time.Duration
}

func (o *Outcome) failf(format string, args ...any) {
	o.Failures = append(o.Failures, fmt.Sprintf(format, args...))
}

// add runs a scenario, as a test of its own where t has such, and reports it. run is nil where
// the scenario is turned off.
func (r *Report) add(t TB, s Scenario, run func(ctx context.Context, out *Outcome)) {
	t.Helper()
	outcome := Outcome{Scenario: s, Off: true}
	perform := func(t TB) {
		if outcome.Off = run == nil; !outcome.Off {
			start := time.Now()
			run(t.Context(), &outcome)
			if outcome.Faults == 0 && len(outcome.Failures) == 0 {
				outcome.failf("nothing was tested")
			}
			outcome.Took = time.Since(start)
		}
		outcome.tell(t, r)
	}
	parent, ok := t.(interface {
		Run(name string, run func(*testing.T)) bool
	})
	if ok {
		parent.Run(string(s), func(t *testing.T) { perform(t) })
	} else {
		perform(t)
	}
	r.Outcomes = append(r.Outcomes, outcome)
}

// maxTold is how many failures of a scenario are told; often they are one mistake.
const maxTold = 3

// tell reports the outcome to the test.
func (o *Outcome) tell(t TB, r *Report) {
	t.Helper()
	name := fmt.Sprintf("deduptest: %s: %s", r.Tool, o.Scenario)
	switch {
	case o.Off:
		t.Logf("%s: not run: turned off by Options.Without", name)
	case len(o.Failures) == 0:
		t.Logf("%s: ok (%d cases, %d calls, %d faults, %s)", name, o.Cases, o.Calls, o.Faults, o.Took.Round(time.Millisecond))
	default:
		told := o.Failures[:min(maxTold, len(o.Failures))]
		more := ""
		if n := len(o.Failures) - len(told); n > 0 {
			more = fmt.Sprintf("\n  and %d more", n)
		}
		t.Errorf("%s: failed\n  %s%s", name, strings.Join(told, "\n  "), more)
	}
}
