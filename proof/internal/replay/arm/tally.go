package arm

import (
	"maps"
	"sync"

	"github.com/tooldedup/dedup/proof/internal/replay/metrics"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
	"github.com/tooldedup/dedup/proof/internal/replay/progress"
	"github.com/tooldedup/dedup/proof/internal/replay/report"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// tally is the figures of an arm as they grow. Deliveries of one round count at
// once; everything else is counted by the driver's one goroutine.
type tally struct {
	sessions, calls, writes, reads int
	rounds                         report.Rounds
	faults                         map[plan.Kind]int
	repeated, repeatedRan          int
	doubled, lost                  int
	states, statesWrong            int
	effectRows, cutShort           int

	mu                               sync.Mutex
	nextID                           int
	deliveries, answers, wrong, kept int
	seen                             metrics.ByTool // what the workers have answered
}

// delivery counts a delivery and numbers it.
func (t *tally) delivery(write bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextID++
	if write {
		t.deliveries++
	}
	return t.nextID
}

// saw counts what a worker has answered, an error included.
func (t *tally) saw(tool string, answer worker.Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = metrics.ByTool{}
	}
	t.seen.Add(tool, callOf(answer))
}

func (t *tally) answer(write, replayed, right bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers++
	if !right {
		t.wrong++
	}
	if write && replayed {
		t.kept++
	}
}

func (t *tally) round(planned plan.Round, applied map[plan.Kind]int) {
	switch len(planned.Workers) {
	case 2:
		t.rounds.Twins2++
	case plan.Workers:
		t.rounds.Twins8++
	default:
		t.rounds.Single++
	}
	if t.faults == nil {
		t.faults = map[plan.Kind]int{}
	}
	for kind, count := range applied {
		t.faults[kind] += count
	}
}

// effects counts what the audit log says of a write.
func (t *tally) effects(w *written, count, want int) {
	t.effectRows += count
	t.doubled += max(0, count-want)
	if count == 0 && (want == 1 || w.acknowledged) {
		t.lost++
	}
}

func (t *tally) repeat(ran bool) {
	t.repeated++
	if ran {
		t.repeatedRan++
	}
}

// stray counts effects that no write should have.
func (t *tally) stray(count int) {
	t.effectRows += count
	t.doubled += count
}

func (t *tally) state(right bool) {
	t.states++
	if !right {
		t.statesWrong++
	}
}

func (t *tally) progress(mode string, sessions int) progress.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return progress.State{
		Arm: mode, Sessions: t.sessions, SessionsTotal: sessions,
		Writes: t.writes, Deliveries: t.deliveries, Faults: sum(t.faults),
	}
}

func (t *tally) result() *report.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	faults := map[plan.Kind]int{}
	for _, kind := range plan.Faults() {
		faults[kind] = t.faults[kind]
	}
	rounds := t.rounds
	rounds.Single -= rounds.Last
	return &report.Result{
		Sessions: t.sessions, Calls: t.calls, Writes: t.writes, Reads: t.reads,
		Deliveries: t.deliveries, Rounds: rounds,
		CutShort: t.cutShort,
		Faults:   faults, FaultsTotal: sum(faults), Replayed: t.kept,
		RepeatedWrites: t.repeated, RepeatedWritesRan: t.repeatedRan,
		Doubled: t.doubled, Wrong: t.wrong, Lost: t.lost, StatesWrong: t.statesWrong,
		Checked: report.Checked{Answers: t.answers, Effects: t.effectRows, States: t.states},
	}
}

func sum(counts map[plan.Kind]int) (total int) {
	for count := range maps.Values(counts) {
		total += count
	}
	return total
}
