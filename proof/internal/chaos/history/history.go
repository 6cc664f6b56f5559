// Package history has two campaigns. Callers of a few keys call concurrently in every way, with
// locks and with claims, at every isolation level and in three exec modes, under every fault. The
// books in the database hold the committed facts and decide whether an effect was doubled or lost.
// Porcupine decides whether a register could have given the answers. Nine planted bugs show that
// both notice a defect.
//
// In history, records last and the first result wins. In mixed-storm, records live for milliseconds
// beside Sweep and Reset.
package history

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// scene holds the differences between the campaigns.
type scene struct {
	callers int
	// perKey is the number of calls of a key before the next key takes its place.
	perKey int
	// roundCalls is the number of calls before the books are judged.
	roundCalls int
	// lasting is true if records outlive the campaign. Otherwise they expire and are swept and
	// reset.
	lasting bool
	bugs    []bug
}

const (
	// shortRound is the calls of a round in the short form and with a planted bug.
	shortRound = 500
	// plantedCalls is the most calls that a planted bug may need to be found.
	plantedCalls = 60_000
	// Without Params.Calls the long form runs for longForm, and the short form makes shortCalls
	// calls.
	longForm, shortCalls = 10 * time.Minute, 2 * shortRound
	// saidMost is the number of problems that are described.
	saidMost = 20
)

// Run runs the campaign history.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return scene{
		callers: 16, perKey: 12, roundCalls: 12_000, lasting: true,
		bugs: []bug{
			{"look-up on the loser's snapshot", textbook(loserSnapshot), doubled},
			{"DO NOTHING and COMMIT in one pipeline", textbook(doNothingThenCommit), doubled},
			{"a lost COMMIT taken as rolled back", takesLostForRolledBack, doubled},
			{"sweep by the client's clock", sweepsTooEarly, doubled},
			{"cache before the fingerprint", answersFromCache, impossible},
		},
	}.run(ctx, l, p, s)
}

// RunStorm runs the campaign mixed-storm.
func RunStorm(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return scene{
		callers: 8, perKey: 350, roundCalls: 2_000,
		bugs: []bug{
			{"a cache that outlives the record", answersFromCache, impossible},
			{"a sweep that forgets too early", sweepsTooEarly, doubled},
			{"an answer without a commit", answersRolledBack, lost},
			{"a retry past the record", runsAgain, doubled},
		},
	}.run(ctx, l, p, s)
}

func (sc scene) run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	a, v, err := sc.raise(ctx, l, p, nil)
	s.Enter(a)
	found := map[string]int{}
	s.Details = map[string]any{
		"replays": v.replays, "resets": v.resets, "impossible": v.impossible, "outcomes": v.outcomes, "wrong": v.said, "planted": found,
	}
	if err = cmp.Or(err, v.unexpected); err != nil {
		return err
	}
	for _, b := range sc.bugs {
		a, v, err := sc.raise(ctx, l, p, &b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		s.EnterControl(a)
		found[b.name] = b.sign(v)
		p.Sayf("planted bug %q: %d signs of it in %d calls: %v", b.name, found[b.name], a.Calls, v.said)
		if found[b.name] == 0 {
			return fmt.Errorf("the planted bug %q was not found in %d calls", b.name, a.Calls)
		}
	}
	return nil
}
