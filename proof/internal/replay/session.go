package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// tenant is the account of all recorded agents. With one tenant per domain, ids that sessions share
// meet in one scope.
const tenant = "demo"

// session is one session that is being replayed.
type session struct {
	*play
	recorded *recording.Session
	writes   []*written
}

// written is a delivered write.
type written struct {
	call *recording.Call
	ref  string
	// repeated is true if it intentionally repeats an earlier write.
	repeated bool
	// answered counts the successful answers by their entry of the ledger.
	answered map[int64]int
}

// scope and keyOf are the call's identity.
func scope(call *recording.Call) string { return call.Domain + "/" + tenant }

func keyOf(call *recording.Call) (string, error) {
	return dedup.KeyFromToolCall(call.Session, call.Turn, call.ToolCallID)
}

// call replays one recorded call. No model made the injected calls.
func (s *session) call(ctx context.Context, call *recording.Call) (err error) {
	s.result.Calls++
	switch {
	case call.InjectedByHarness:
	case call.Class == recording.Write:
		s.result.Writes++
		err = s.write(ctx, call)
	default:
		s.result.Reads++
		err = s.deliver(ctx, nil, call, call.Seq%workerCount)
	}
	return err
}

// write delivers a write round by round, and then once more without faults.
func (s *session) write(ctx context.Context, call *recording.Call) error {
	w := &written{call: call, ref: ledger.Ref(call), repeated: s.repeats(call), answered: map[int64]int{}}
	s.writes = append(s.writes, w)
	plan := draw(s.seed, w.ref, call.IsError, s.kinds)
	for _, planned := range plan.rounds {
		if err := s.round(ctx, w, planned); err != nil {
			return err
		}
		s.result.Rounds.count(len(planned.workers))
	}
	s.result.Rounds.Last++
	return s.round(ctx, w, round{workers: []int{plan.last}})
}

// round delivers to all its workers concurrently. It ends when each delivery is answered and each
// fault is over.
func (s *session) round(ctx context.Context, w *written, planned round) error {
	faults := s.lay(ctx, planned)
	errs := make([]error, len(planned.workers))
	var delivering sync.WaitGroup
	for i, at := range planned.workers {
		delivering.Go(func() { errs[i] = s.deliver(ctx, w, w.call, at) })
	}
	delivering.Wait()
	applied, err := faults.end(ctx)
	for kind, count := range applied {
		s.result.Faults[kind] += count
		s.result.FaultsTotal += count
	}
	for _, at := range planned.workers {
		s.places[at].proxy.Reset() // frees the kept statement texts
	}
	return cmp.Or(append(errs, err)...) // twins fail alike
}

// deliver repeats a call until it is answered, as an orchestrator does, and compares the answer
// with the recording. An unanswered call ends the arm: every fault passes. w is nil for a read.
func (s *session) deliver(ctx context.Context, w *written, call *recording.Call, at int) error {
	delivery := worker.Delivery{
		Session: call.Session, Turn: call.Turn, ToolCallID: call.ToolCallID,
		Scope: scope(call), Domain: call.Domain, Tool: call.Tool,
		Args: call.Arguments, Ref: ledger.Ref(call),
	}
	var failed failures
	var answer worker.Answer
	err := lab.Insist(ctx, func(ctx context.Context, _ int) (err error) {
		answer, err = s.places[at].deliver(ctx, delivery)
		if w != nil {
			s.count()
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err = failed.add(err); !errors.As(err, &lab.Hopeless{}) {
			s.say("%s call %d, %s: delivered again: %v", call.Session, call.Seq, call.Tool, err)
		}
		return err
	})
	if err == nil {
		s.compare(w, call, answer)
	}
	return err
}

// count counts a delivery of a write.
func (s *session) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Deliveries++
}

// compare compares an answer with the recorded one. The end of the session checks its entry of the
// ledger.
func (s *session) compare(w *written, call *recording.Call, answer worker.Answer) {
	right := answer.Text == call.Result && answer.Refused == call.IsError
	s.mu.Lock()
	defer s.mu.Unlock()
	if w != nil && !answer.Refused {
		w.answered[answer.Entry]++
	}
	s.result.Checked.Answers++
	if call.Class == recording.Write && answer.Replayed {
		s.result.Replayed++
	}
	if !right {
		s.result.Wrong++
		s.say("%s call %d, %s: answered %s, recorded %s", call.Session, call.Seq, call.Tool, answer.Text, call.Result)
	}
}

// say lists deviations from the recording, and repeated deliveries.
func (p *play) say(format string, args ...any) {
	if p.verbose {
		p.console.printf("%.400s", fmt.Sprintf(format, args...))
	}
}
