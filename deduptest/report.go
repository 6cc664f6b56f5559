package deduptest

import (
	"fmt"
	"strings"
	"time"
)

// Report says what became of every scenario.
type Report struct {
	// Tool is the tool's name.
	Tool string
	// Seed is what all that was random followed from; 0 where nothing was.
	Seed uint64
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
		again := ""
		if r.Seed != 0 {
			again = fmt.Sprintf("\n  repeat it with %s=%d", seedEnv, r.Seed)
		}
		t.Errorf("%s: failed\n  %s%s%s", name, strings.Join(told, "\n  "), more, again)
	}
}
