package lab

import (
	"errors"
	"fmt"
	"time"
)

// Score is the result of a campaign: its figures, which the seed reproduces, and a verdict. It is
// the last line of a campaign's output, as JSON.
type Score struct {
	Campaign string `json:"campaign"`
	Seed     uint64 `json:"seed"`
	// Server is the version of PostgreSQL.
	Server string `json:"server"`
	// Calls counts the deliveries, Faults the faults that were applied.
	Calls        int            `json:"calls"`
	Faults       int            `json:"faults"`
	FaultsByKind map[string]int `json:"faults_by_kind,omitempty"`
	// Tally is the result of the calls.
	Tally
	// Control is the result of the arm that must go wrong.
	ControlCalls  int   `json:"control_calls"`
	ControlFaults int   `json:"control_faults"`
	Control       Tally `json:"-"`
	// ControlDoubled and the others are Control, flat.
	ControlDoubled   int `json:"control_doubled"`
	ControlLost      int `json:"control_lost"`
	ControlDiffering int `json:"control_differing"`
	// Details are the campaign's own figures.
	Details map[string]any `json:"details,omitempty"`
	Seconds float64        `json:"seconds"`
	Verdict string         `json:"verdict"`
}

// Tally counts the defects.
type Tally struct {
	// Identities counts the wanted effects.
	Identities int `json:"identities"`
	// Doubled counts the effects beyond the first of an identity.
	Doubled int `json:"doubled"`
	// Lost counts the answered identities without an effect.
	Lost int `json:"lost"`
	// Differing counts the answers that differ from the one effect.
	Differing int `json:"differing"`
	// Unanswered counts the identities without an answer at the end.
	Unanswered int `json:"unanswered"`
}

// Add adds the counts of o.
func (t *Tally) Add(o Tally) {
	t.Identities += o.Identities
	t.Doubled += o.Doubled
	t.Lost += o.Lost
	t.Differing += o.Differing
	t.Unanswered += o.Unanswered
}

// Wrong reports whether there is a defect.
func (t Tally) Wrong() bool { return t.Doubled+t.Lost+t.Differing+t.Unanswered > 0 }

func (t Tally) String() string {
	return fmt.Sprintf("%d doubled, %d lost, %d differing, %d unanswered", t.Doubled, t.Lost, t.Differing, t.Unanswered)
}

// Arm is the work of one arm of a campaign and its result.
type Arm struct {
	Calls  int
	Faults map[string]int // applied, by kind
	Tally
}

// Fault counts applied faults.
func (a *Arm) Fault(kind string, n int) {
	if a.Faults == nil {
		a.Faults = map[string]int{}
	}
	a.Faults[kind] += n
}

// AllFaults is the sum of all kinds.
func (a *Arm) AllFaults() (sum int) {
	for _, n := range a.Faults {
		sum += n
	}
	return sum
}

// Enter adds an arm with dedup to the score.
func (s *Score) Enter(a Arm) {
	s.Calls += a.Calls
	s.Faults += a.AllFaults()
	for kind, n := range a.Faults {
		s.FaultsByKind[kind] += n
	}
	s.Add(a.Tally)
}

// EnterControl adds an arm that must go wrong.
func (s *Score) EnterControl(a Arm) {
	s.ControlCalls += a.Calls
	s.ControlFaults += a.AllFaults()
	s.Control.Add(a.Tally)
}

// Arms runs an arm with dedup and its control, and adds both.
func (s *Score) Arms(run func(dedup bool) (Arm, error)) error {
	a, err := run(true)
	s.Enter(a)
	if err != nil {
		return err
	}
	a, err = run(false)
	s.EnterControl(a)
	return err
}

// Close completes the score and returns an error if the campaign failed: because it ended with err,
// because the promise was broken, or because nothing was tested. An empty reading is a failure and
// never a zero.
func (s *Score) Close(started time.Time, err error) error {
	s.Seconds = time.Since(started).Seconds()
	s.ControlDoubled, s.ControlLost, s.ControlDiffering = s.Control.Doubled, s.Control.Lost, s.Control.Differing
	var problems []error
	if err != nil {
		problems = append(problems, err)
	}
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if s.Wrong() {
		report("the promise was broken: %v", s.Tally)
	}
	switch {
	case s.Calls == 0 || s.Identities == 0:
		report("nothing was called")
	case s.Faults == 0:
		report("no fault was applied, so nothing was tested")
	case s.ControlDoubled+s.ControlLost+s.ControlDiffering == 0: // a control without answers shows nothing
		report("the control arm did not go wrong, so the campaign would not notice if dedup did")
	}
	s.Verdict = "held"
	if len(problems) > 0 {
		s.Verdict = "FAILED"
	}
	return errors.Join(problems...)
}
