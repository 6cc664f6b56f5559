package deduptest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Report has the result of every scenario.
type Report struct {
	// Tool is the tool's name.
	Tool string
	// Scenarios are in the order of their runs, including those that were turned off.
	Scenarios []ScenarioReport
}

// Failed returns the scenarios that failed.
func (r *Report) Failed() []Scenario {
	var failed []Scenario
	for _, o := range r.Scenarios {
		if len(o.Failures) > 0 {
			failed = append(failed, o.Scenario)
		}
	}
	return failed
}

// ScenarioReport is the result of one scenario.
type ScenarioReport struct {
	Scenario Scenario
	// Off reports that the scenario did not run: Options.Without or go test's -run left it out.
	Off bool
	// Cases counts the keys, Calls the calls of the tool, and Faults the faults, repeats and races
	// that really happened.
	Cases, Calls, Faults int
	// Failures has a text for each case that failed. It is empty if the tool is right.
	Failures []string
	// Took is the duration of the scenario.
	Took time.Duration
}

func (o *ScenarioReport) failf(format string, args ...any) {
	o.Failures = append(o.Failures, fmt.Sprintf(format, args...))
}

// add runs a scenario, as a subtest if t has them, and reports it. run is nil if the scenario is
// turned off.
func (r *Report) add(t TB, s Scenario, run func(ctx context.Context, out *ScenarioReport)) {
	t.Helper()
	outcome := ScenarioReport{Scenario: s, Off: true}
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
	r.Scenarios = append(r.Scenarios, outcome)
}

// maxTold is how many failures of a scenario are printed. Often all have one cause.
const maxTold = 3

// tell reports the result to the test.
func (o *ScenarioReport) tell(t TB, r *Report) {
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
