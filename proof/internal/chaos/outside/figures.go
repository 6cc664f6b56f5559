package outside

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// figures are a trial's details in the score.
type figures struct {
	verdict
	Calls    int            `json:"calls"`
	Kills    int            `json:"kills"`
	Pauses   int            `json:"pauses"`
	Between  int            `json:"pauses_between_check_and_send"`
	Restarts int            `json:"restarts"`
	Faults   map[string]int `json:"provider"`
	Steps    map[string]int `json:"steps"`
	KillsAt  map[string]int `json:"kills_at"`
	Calling  float64        `json:"calling_seconds"`
	Seconds  float64        `json:"seconds"`
	Said     []string       `json:"said,omitempty"`
}

// enter enters what became of the trial in the score.
func (t *trial) enter(s *lab.Score) {
	if !t.judged {
		return
	}
	v := t.verdict
	g := figures{
		verdict: v, Calls: t.books.calls, Kills: sum(t.books.kills), Pauses: sum(t.books.pauses), Between: t.books.pauses[external.EventSending],
		Restarts: sum(t.restarts), Faults: t.provider.applied(), Steps: texts(t.books.steps), KillsAt: texts(t.books.kills),
		Calling: t.calling.Seconds(), Seconds: t.took.Seconds(), Said: v.said,
	}
	s.Details[t.arm.name] = g
	t.say("%s: %d operations in %.0f s, %d kills, %d pauses, %d restarts: %d twice (%d silent), %d lost, %d ghosts, %d local writes off, %d differing, parked %d that happened and %d that did not, %d wrongly, %d resolved, %d open, %d broken sagas",
		t.arm.name, t.ops, g.Seconds, g.Kills, g.Pauses, g.Restarts, v.Twice, v.Silent, v.Lost, v.Ghosts, v.Local, v.Differing, v.ParkedHappened, v.ParkedNot, v.Parked, v.Resolved, v.Open, v.Sagas)
	tally := lab.Tally{
		Identities: v.Operations, Duplicates: v.Twice, Lost: v.Lost, Differing: v.Ghosts + v.Local + v.Differing + v.Sagas, Unanswered: v.Parked + v.Open,
	}
	a := lab.Arm{Calls: g.Calls, Tally: tally}
	a.Fault("SIGKILL", g.Kills)
	a.Fault("SIGSTOP", g.Pauses-g.Between)
	a.Fault("SIGSTOP between check and send", g.Between)
	for _, kinds := range [...]map[string]int{t.restarts, g.Faults} {
		for kind, n := range kinds {
			a.Fault(kind, n)
		}
	}
	if t.arm.control != right {
		s.EnterControl(a)
		return
	}
	for _, line := range v.said {
		t.say("%s: %s", t.arm.name, line)
	}
	s.Enter(a)
}

// errTame is that a control arm did not go wrong.
var errTame = errors.New("the control arm did not go wrong, so the campaign would not notice if the library did")

// check is what is wrong with a control arm.
func (t *trial) check() error {
	switch {
	case t.arm.control == right || !t.judged:
		return nil
	case t.verdict.Twice+t.verdict.Ghosts == 0:
		return fmt.Errorf("%s: %w", t.arm.name, errTame)
	case t.arm.control == settlesEarly && t.verdict.Silent > 0:
		return fmt.Errorf("%s: %d operations happened twice, or beside a refusal, and were not reported", t.arm.name, t.verdict.Silent)
	}
	return nil
}

func sum[K comparable](counts map[K]int) (all int) {
	for n := range maps.Values(counts) {
		all += n
	}
	return all
}

func texts(counts map[external.EventKind]int) map[string]int {
	all := map[string]int{}
	for step, n := range counts {
		all[string(step)] = n
	}
	return all
}
