package mixed

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A bug is planted into a storm, which must show it.
type bug string

const (
	none bug = ""
	// answersFromCache answers with what it answered before, expired and reset or not.
	answersFromCache bug = "a cache that outlives the record"
	// sweepsTooEarly deletes records that may not be forgotten yet.
	sweepsTooEarly bug = "a sweep that forgets too early"
	// answersRolledBack takes the answer of a DoTx whose transaction is rolled back.
	answersRolledBack bug = "an answer without a commit"
	// runsAgain runs the effect of an answered call once more.
	runsAgain bug = "a retry past the record"
)

var bugs = []bug{answersFromCache, sweepsTooEarly, answersRolledBack, runsAgain}

// plantedRounds are the most that a bug may take to be found.
const plantedRounds = 20

// signs counts what the bug, and no other, must cause.
func (b bug) signs(v verdict) int {
	switch b {
	case answersFromCache:
		return v.Stale
	case answersRolledBack:
		return v.Lost
	case sweepsTooEarly:
		return v.Overlaps
	default:
		return v.Unrecorded
	}
}

// makeOrPlant makes a call as the bug has it.
func (s *storm) makeOrPlant(ctx context.Context, d *draw, b *books) {
	switch s.bug {
	case answersFromCache:
		if s.fromCache(ctx, d, b) {
			return
		}
	case runsAgain:
		defer func() {
			_ = pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, effectSQL, d.keys[0], d.calls[0], 0.0)
				return err
			})
		}()
	}
	s.make(ctx, d, b)
}

// fromCache answers a call with the first answer that its key got.
func (s *storm) fromCache(ctx context.Context, d *draw, b *books) bool {
	b.mu.Lock()
	for _, t := range b.answers {
		if _, there := s.cached[t.key]; !there {
			s.cached[t.key] = t
		}
	}
	t, there := s.cached[d.keys[0]]
	b.mu.Unlock()
	if !there {
		return false
	}
	began, err := now(ctx, s.db)
	if err != nil {
		return false
	}
	t.began, t.replayed = began, true
	b.answered(t)
	return true
}
