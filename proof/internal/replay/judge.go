package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// check compares the ledger of the session with its writes.
func (s *session) check(ctx context.Context) error {
	entries, err := ledger.Entries(ctx, s.db.pool, s.recorded.ID)
	if err != nil {
		return err
	}
	s.audit(entries)
	for _, w := range s.writes {
		if err := s.checkRepeat(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// audit compares the ledger of the session with its writes: one entry for each successful write and
// none for a refused one. An answer is wrong if it names another entry than the write's first.
func (s *session) audit(entries map[string][]int64) {
	r := &s.result
	for _, all := range entries {
		r.Checked.Effects += len(all)
	}
	for _, w := range s.writes {
		count, want := len(entries[w.ref]), 1
		if w.call.IsError {
			want = 0
		}
		r.Doubled += max(0, count-want)
		if count == 0 && (want == 1 || len(w.answered) > 0) {
			r.Lost++
		}
		if count != want {
			s.say("%s: %s took effect %d times, recorded %d", w.ref, w.call.Tool, count, want)
		}
		for entry, answers := range w.answered {
			if count == 0 || entry != entries[w.ref][0] {
				r.Wrong += answers
				s.say("%s: %s was answered %d times with entry %d of %v", w.ref, w.call.Tool, answers, entry, entries[w.ref])
			}
		}
	}
}

// checkRepeat counts an intended repeat of an earlier write, and whether it ran: with dedup it has
// its own record.
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
		if ran, err = s.db.hasRecord(ctx, scope(w.call), w.call.Tool, key); err != nil {
			return err
		}
	}
	if ran {
		s.result.RepeatedWritesRan++
	}
	return nil
}

// checkComplete makes an empty reading a failure: a zero that was read from nothing is no result.
func checkComplete(rec *recording.Recording, r *result) error {
	want := rec.Counts()
	successes := want.Writes - want.WriteErrors
	switch {
	case want.Writes == 0:
		return errors.New("the recording has no writes: nothing was checked")
	case r.Sessions != want.Sessions:
		return fmt.Errorf("%d sessions were checked, the recording has %d", r.Sessions, want.Sessions)
	case r.Writes != want.Writes || r.Calls != want.Calls:
		return fmt.Errorf("%d writes of %d calls were replayed, the recording has %d of %d", r.Writes, r.Calls, want.Writes, want.Calls)
	case r.Checked.Answers < want.Calls-want.Injected || r.Deliveries < want.Writes:
		return fmt.Errorf("only %d answers and %d deliveries were checked", r.Checked.Answers, r.Deliveries)
	case r.Mode == string(worker.Dedup) && r.Checked.Records != want.Writes:
		return fmt.Errorf("%d records are kept, the recording has %d writes", r.Checked.Records, want.Writes)
	case successes > 0 && r.Checked.Effects == 0:
		return fmt.Errorf("the ledger was empty, %d writes should be in it", successes)
	}
	return nil
}
