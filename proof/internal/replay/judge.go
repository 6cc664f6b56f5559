package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
	"github.com/tooldedup/dedup/proof/internal/world"
)

// check compares what the session left with what it should have left.
func (s *session) check(ctx context.Context) error {
	tables := s.db.domains[s.recorded.Domain]
	effects, err := world.Effects(ctx, tables)
	if err != nil {
		return err
	}
	s.audit(effects)
	for _, w := range s.writes {
		if err := s.checkRepeat(ctx, w); err != nil {
			return err
		}
		if s.task.Pays.Pays(w.call.Tool) {
			if err := s.paying.check(ctx, s, w); err != nil {
				return err
			}
		}
	}
	state, err := world.Changed(ctx, tables, s.recorded.Domain)
	if err != nil {
		return err
	}
	diff := world.DiffState(s.recorded.Changed, state)
	s.result.Checked.States++
	if len(diff) > 0 {
		s.result.StatesWrong++
	}
	for _, line := range diff[:min(len(diff), 5)] {
		s.say("%s: %s", s.recorded.ID, line)
	}
	return nil
}

// audit compares the audit log of the session with its writes: one effect for
// each successful one, none for a refused one, and none of a call that is no write.
func (s *session) audit(effects map[string]int) {
	r := &s.result
	stray := 0
	for _, count := range effects {
		stray += count
	}
	r.Checked.Effects += stray
	for _, w := range s.writes {
		count, want := effects[w.ref], 1
		if w.call.IsError {
			want = 0
		}
		stray -= count
		r.Doubled += max(0, count-want)
		if count == 0 && (want == 1 || w.acknowledged) {
			r.Lost++
		}
		if count != want {
			s.say("%s: %s took effect %d times, recorded %d", w.ref, w.call.Tool, count, want)
		}
	}
	r.Doubled += stray
	if stray != 0 {
		s.say("%s: %d effects of calls that are no write", s.recorded.ID, stray)
	}
}

// checkRepeat counts a write that repeats an earlier one on purpose, and whether it ran: with dedup
// it has a record of its own.
func (s *session) checkRepeat(ctx context.Context, w *written) error {
	if !w.repeated {
		return nil
	}
	s.result.RepeatedWrites++
	ran := true
	if s.mode == worker.Dedup {
		key, err := keyOf(w.call)
		if err != nil {
			return err
		}
		if ran, err = s.db.hasRecord(ctx, w.call.Domain, scope(w.call), w.call.Tool, key); err != nil {
			return err
		}
	}
	if ran {
		s.result.RepeatedWritesRan++
	}
	return nil
}

// checkComplete makes a failure of a reading that is empty: zeros that were read
// from nothing are no result.
func checkComplete(rec *recording.Recording, r *result) error {
	want := rec.Counts()
	successes := want.Writes - want.WriteErrors
	switch {
	case want.Writes == 0:
		return errors.New("the recording has no writes: nothing was checked")
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
