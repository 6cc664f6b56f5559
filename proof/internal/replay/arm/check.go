package arm

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/report"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
	"github.com/tooldedup/dedup/proof/internal/world"
	"github.com/tooldedup/dedup/proof/internal/world/effect"
)

// check compares what the session left with what it should have left.
func (s *sessionRun) check(ctx context.Context) error {
	counts, err := effect.Counts(ctx, s.db.Of(s.session.Domain))
	if err != nil {
		return err
	}
	s.audit(counts)
	if err := s.repeats(ctx); err != nil {
		return err
	}

	for _, w := range s.writes {
		if s.Pays.Pays(w.call.Tool) {
			if err := s.pays.check(ctx, s, w); err != nil {
				return err
			}
		}
	}

	state, err := s.db.Changed(ctx, s.session.Domain)
	if err != nil {
		return err
	}
	diff := world.DiffState(s.session.Changed, state)
	s.tally.state(len(diff) == 0)
	for _, line := range diff[:min(len(diff), 5)] {
		s.differs("%s: %s", s.session.ID, line)
	}
	return nil
}

// audit compares the audit log of the session with its writes: one effect for
// each successful one, none for a refused one.
func (s *sessionRun) audit(counts map[string]int) {
	known := map[string]bool{}
	for _, w := range s.writes {
		known[w.ref] = true
		count, want := counts[w.ref], 1
		if w.call.IsError {
			want = 0
		}
		s.tally.effects(w, count, want)
		if count != want {
			s.differs("%s: %s took effect %d times, recorded %d", w.ref, w.call.Tool, count, want)
		}
	}
	for ref, count := range counts {
		if !known[ref] {
			s.tally.stray(count)
			s.differs("%s: %d effects of a call that is no write", ref, count)
		}
	}
}

// repeats counts the writes that repeat an earlier one on purpose, and those of
// them that ran: with dedup they have a record of their own.
func (s *sessionRun) repeats(ctx context.Context) error {
	for _, w := range s.writes {
		if !w.repeated {
			continue
		}
		ran := true
		if s.Mode == worker.Dedup {
			key, err := dedup.KeyFromToolCall(w.call.Session, w.call.Turn, w.call.ToolCallID)
			if err != nil {
				return err
			}
			if ran, err = s.db.HasRecord(ctx, w.call.Domain, scope(w.call), w.call.Tool, key); err != nil {
				return err
			}
		}
		s.tally.repeat(ran)
	}
	return nil
}

// differs says what does not agree with the recording.
func (s *sessionRun) differs(format string, args ...any) {
	if s.Verbose {
		s.Display.Printf("%.400s", fmt.Sprintf(format, args...))
	}
}

// redelivers says why a delivery is sent again.
func (s *sessionRun) redelivers(call *recording.Call, err error) {
	if s.Verbose {
		s.Display.Printf("%s call %d, %s: delivered again: %v", call.Session, call.Seq, call.Tool, err)
	}
}

// checkComplete makes a failure of a reading that is empty: zeros that were read
// from nothing are no result.
func checkComplete(rec *recording.Recording, r *report.Result) error {
	want := rec.Counts()
	successes := want.Writes - want.WriteErrors
	switch {
	case want.Writes == 0:
		return fmt.Errorf("the recording has no writes: nothing was checked")
	case r.Sessions != want.Sessions || r.Checked.States != want.Sessions:
		return fmt.Errorf("%d sessions and %d final states were checked, the recording has %d", r.Sessions, r.Checked.States, want.Sessions)
	case r.Writes != want.Writes || r.Calls != want.Calls:
		return fmt.Errorf("%d writes of %d calls were replayed, the recording has %d of %d", r.Writes, r.Calls, want.Writes, want.Calls)
	case r.Checked.Answers < want.Calls-want.Injected || r.Deliveries < want.Writes:
		return fmt.Errorf("only %d answers and %d deliveries were checked", r.Checked.Answers, r.Deliveries)
	case r.Mode == string(worker.Dedup) && r.Checked.Records != want.Writes:
		return fmt.Errorf("%d records are kept, the recording has %d writes", r.Checked.Records, want.Writes)
	case successes > 0 && r.Checked.Effects == 0:
		return fmt.Errorf("the audit log was empty, %d writes should be in it", successes)
	}
	return nil
}
