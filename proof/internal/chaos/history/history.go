// Package history has the campaigns that let callers of a few keys call at once, in every way, order,
// isolation level and exec mode, while everything fails that can. Books in the database say what was
// committed. They decide whether an effect was doubled or lost, and Porcupine decides whether a
// register could have given the answers. Nine planted bugs show that both would notice.
//
// In history records last, and the first result wins. In mixed-storm they live for milliseconds,
// and Sweep and Reset run.
package history

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// scene is what distinguishes the campaigns.
type scene struct {
	callers int
	// perKey is how often a key is called until the next one takes its place.
	perKey int
	// roundCalls is how many calls are made until the books are judged.
	roundCalls int
	// lasting records outlive the campaign. Others expire, and are swept and reset.
	lasting bool
	bugs    []bug
}

const (
	// shortRound is a round of the short form, and of one with a planted bug.
	shortRound = 500
	// plantedCalls are the most calls that a planted bug may take to be found.
	plantedCalls = 60_000
	// Without Params.Calls the long form goes on for longForm, and the short one for shortCalls.
	longForm, shortCalls = 10 * time.Minute, 2 * shortRound
	// saidMost is how many things that are wrong are described.
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
