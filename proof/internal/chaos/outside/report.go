package outside

import (
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// figures are an arm's details in the score.
type figures struct {
	verdict
	Calls   int            `json:"calls"`
	Faults  map[string]int `json:"faults"`
	Seconds float64        `json:"seconds"`
}

// report adds a trial's verdict to the score. It returns an error if a control arm found nothing
// wrong.
func (t *trial) report(p lab.Params, s *lab.Score) error {
	v := t.verdict
	t.Tally = lab.Tally{ // silent ones are already counted
		Identities: v.Became["operations"], Doubled: v.Wrong[twice], Lost: v.Wrong[lost],
		Differing:  v.Wrong[ghost] + v.Wrong[local] + v.Wrong[differing] + v.Wrong[brokenSaga],
		Unanswered: v.Wrong[wronglyParked] + v.Wrong[open],
	}
	g := figures{v, t.Calls, t.Faults, time.Since(t.began).Seconds()}
	s.Details[t.arm.Name] = g
	p.Sayf("%s: %d operations in %.0f s, %d faults, wrong: %v, of all: %v", t.arm.Name, t.ops, g.Seconds, t.AllFaults(), v.Wrong, v.Became)
	if t.arm.Control == right {
		for _, line := range v.Said {
			p.Sayf("%s: %s", t.arm.Name, line)
		}
		s.Enter(t.Arm)
		return nil
	}
	s.EnterControl(t.Arm)
	switch {
	case v.Wrong[twice]+v.Wrong[ghost] == 0 && (t.arm.Control != writesBeside || v.Wrong[local] == 0):
		return errors.New("the control arm did not go wrong, so the campaign would not notice if the library did")
	case t.arm.Control == settlesEarly && v.Wrong[silent] > 0:
		return fmt.Errorf("%d operations happened twice, or beside a refusal, and were not reported", v.Wrong[silent])
	}
	return nil
}
