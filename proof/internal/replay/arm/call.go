package arm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/fleet"
	"github.com/tooldedup/dedup/proof/internal/replay/inject"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// tenant is the account on whose behalf all recorded agents work: with one
// tenant a domain, ids that sessions share meet in one scope.
const tenant = "demo"

// runawaySize is by how much an answer may be longer than the recorded one
// before its write is delivered no further. Without dedup every repeated
// cancellation mirrors all refund lines so far; what is 16 KB long after a round
// would be gigabytes after the last.
const runawaySize = 16 << 10

// sessionRun is one session at work.
type sessionRun struct {
	*run
	session *recording.Session
	writes  []*written
}

// written is a write that has been delivered.
type written struct {
	call *recording.Call
	ref  string
	// repeated says that it repeats an earlier write on purpose.
	repeated bool
	// runaway says that its answers grow with every delivery.
	runaway bool
	// acknowledged says that a delivery was answered with success.
	acknowledged bool
	// faults counts those that were applied to its deliveries, and parked how often it was.
	faults, parked int
}

// call replays one recorded call. Injected ones were made by no model.
func (s *sessionRun) call(ctx context.Context, call *recording.Call) error {
	s.tally.calls++
	switch {
	case call.InjectedByHarness:
		return nil
	case call.Class == recording.Write:
		return s.write(ctx, call)
	}
	s.tally.reads++
	if _, err := s.deliver(ctx, nil, call, call.Seq%plan.Workers); err != nil {
		return fmt.Errorf("call %d, %s: %w", call.Seq, call.Tool, err)
	}
	return nil
}

// write delivers a write round by round, and then once more without faults.
func (s *sessionRun) write(ctx context.Context, call *recording.Call) error {
	w := &written{call: call, ref: ref(call), repeated: s.seen.add(call)}
	s.writes = append(s.writes, w)
	s.tally.writes++
	planned := plan.Draw(s.Seed, w.ref, call.IsError, s.Kinds)
	for _, round := range planned.Rounds {
		if err := s.round(ctx, w, round); err != nil {
			return fmt.Errorf("call %d, %s: %w", call.Seq, call.Tool, err)
		}
		if w.runaway {
			s.tally.cutShort++
			return nil
		}
	}
	s.tally.rounds.Last++
	if err := s.round(ctx, w, plan.Round{Workers: []int{planned.Last}}); err != nil {
		return fmt.Errorf("call %d, %s: %w", call.Seq, call.Tool, err)
	}
	return nil
}

// round delivers to all its workers at once and ends when each delivery has
// been answered and each fault is over.
func (s *sessionRun) round(ctx context.Context, w *written, planned plan.Round) error {
	faults := inject.Arm(ctx, targets{s.run}, planned)
	errs := make([]error, len(planned.Workers))
	texts := make([]string, len(planned.Workers))
	var delivering sync.WaitGroup
	for i, at := range planned.Workers {
		delivering.Go(func() { texts[i], errs[i] = s.deliver(ctx, w, w.call, at) })
	}
	delivering.Wait()
	applied, err := faults.End(ctx)
	s.tally.round(planned, applied)
	w.faults += sum(applied)
	for _, at := range planned.Workers {
		s.fleet.Proxy(at).Reset() // else it keeps the text of every statement
	}
	for _, text := range texts {
		w.acknowledged = w.acknowledged || text != "" && !isRefusal(text)
		w.runaway = w.runaway || len(text) > len(w.call.Result)+runawaySize
	}
	return cmp.Or(append(errs, err)...) // twins that fail, fail alike
}

// deliver sends a call until it is answered, as an orchestrator does, and
// compares the answer with the recorded one. A call that gets no answer ends the
// arm: no fault keeps a call from its answer for ever. w is nil for a read.
func (s *sessionRun) deliver(ctx context.Context, w *written, call *recording.Call, at int) (string, error) {
	delivery := worker.Delivery{
		Session: call.Session, Turn: call.Turn, ToolCallID: call.ToolCallID,
		Scope: scope(call), Domain: call.Domain, Tool: call.Tool,
		Args: call.Arguments, Ref: ref(call),
	}
	write := call.Class == recording.Write
	unanswered, parked := newUnanswered(), 0
	for {
		delivery.ID = s.tally.delivery(write)
		answer, err := s.fleet.Deliver(ctx, at, delivery)
		if write {
			s.tally.saw(call.Tool, answer)
		}
		if err == nil && answer.Parked {
			if parked++; parked > maxDeliveries {
				return "", fmt.Errorf("parked by %d deliveries, however often it is resolved", parked)
			}
			if err := s.pays.resolve(ctx, s, w, parked); err != nil {
				return "", err
			}
			continue
		}
		if err == nil {
			right := recording.Equal(call.Result, answer.Text)
			s.tally.answer(write, answer.Replayed, right)
			if !right {
				s.differs("%s call %d, %s: answered %s, recorded %s", call.Session, call.Seq, call.Tool, answer.Text, call.Result)
			}
			return answer.Text, nil
		}
		if !errors.Is(err, fleet.ErrNoAnswer) {
			return "", err
		}
		if err := unanswered.add(err); err != nil {
			return "", err
		}
		s.redelivers(call, err)
	}
}

func scope(call *recording.Call) string { return call.Domain + "/" + tenant }

// ref names a call in the audit log.
func ref(call *recording.Call) string {
	return fmt.Sprintf("%s/%d/%s", call.Session, call.Turn, call.ToolCallID)
}
