package plan

import (
	"hash/fnv"
	"math/rand/v2"
)

// The measures of a plan. Over the 269 recorded writes they come to some 3,400
// deliveries and 750 applied faults.
const (
	maxRounds = 5

	// A write commits once, so the first round holds what needs a COMMIT: up
	// to two faults that leave nothing behind and then one that leaves the
	// write done.
	committedShare = 0.8

	// Later rounds are answered from the record.
	firstLostReply, secondLostReply = 0.35, 0.1

	// Every round may lose a connection to a worker.
	cutConnectionShare = 0.4

	// The first round, which commits, may lose a connection between nodes.
	betweenNodesShare = 0.6
)

// choice is one of several, drawn as often as its weight says.
type choice[T any] struct {
	weight int
	value  T
}

func pick[T any](rng *rand.Rand, choices []choice[T]) (value T, ok bool) {
	sum := 0
	for _, c := range choices {
		sum += c.weight
	}
	if sum == 0 {
		return value, false
	}
	n := rng.IntN(sum)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			return c.value, true
		}
	}
	panic("unreachable")
}

// Draw returns the plan of the write that ref names. A refused write has no
// statement at the end of its effect to aim at.
func Draw(seed uint64, ref string, refused bool, set Set) Write {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(ref))
	d := drawer{rng: rand.New(rand.NewPCG(seed, hash.Sum64())), refused: refused, set: set}

	rounds := make([]Round, 1+d.rng.IntN(maxRounds))
	for i := range rounds {
		rounds[i].Workers = d.rng.Perm(Workers)[:d.size()]
		if i == 0 {
			rounds[i].Faults = d.first()
		} else {
			rounds[i].Faults = d.later()
		}
	}
	last := d.rng.IntN(Workers)
	for i := range rounds { // after all else, so that the rest of a plan does not depend on it
		rounds[i].Faults = append(rounds[i].Faults, d.cut()...)
	}
	rounds[0].Faults = append(rounds[0].Faults, d.betweenNodes()...)
	return Write{Rounds: rounds, Last: last}
}

type drawer struct {
	rng     *rand.Rand
	refused bool
	set     Set
}

// weight is w for a kind that may be used.
func (d *drawer) weight(w int, kind Kind) int {
	if !d.set[kind] {
		return 0
	}
	return w
}

func (d *drawer) size() int {
	size, _ := pick(d.rng, []choice[int]{
		{7, 1}, {d.weight(6, Twins2), 2}, {d.weight(7, Twins8), 8},
	})
	return size
}

func (d *drawer) first() []Fault {
	var faults []Fault
	undone, _ := pick(d.rng, []choice[int]{{15, 0}, {45, 1}, {40, 2}})
	for range undone {
		kind, ok := pick(d.rng, []choice[Kind]{
			{d.weight(4, CutBeforeCommit), CutBeforeCommit},
			{d.weight(3, Terminate), Terminate},
			{d.weight(2, Kill), Kill},
		})
		if ok {
			faults = append(faults, Fault{kind, d.undone(kind)})
		}
	}
	if d.rng.Float64() >= committedShare {
		return faults
	}
	kind, ok := pick(d.rng, []choice[Kind]{
		{d.weight(4, LostAnswer), LostAnswer},
		{d.weight(2, DelayedCommit), DelayedCommit},
		{d.weight(1, Kill), Kill},
	})
	if ok {
		faults = append(faults, Fault{kind, d.done(kind)})
	}
	return faults
}

func (d *drawer) later() []Fault {
	var faults []Fault
	for _, share := range [...]float64{firstLostReply, secondLostReply} {
		if d.set[LostReply] && d.rng.Float64() < share {
			faults = append(faults, Fault{LostReply, d.loss()})
		}
	}
	return faults
}

func (d *drawer) cut() []Fault {
	if !d.set[CutConnection] || d.rng.Float64() >= cutConnectionShare {
		return nil
	}
	how, _ := pick(d.rng, []choice[How]{{1, RequestSent}, {1, AnswerLost}, {1, AnswerBroken}})
	return []Fault{{CutConnection, how}}
}

func (d *drawer) betweenNodes() []Fault {
	if !d.set[BetweenNodes] || d.rng.Float64() >= betweenNodesShare {
		return nil
	}
	how, _ := pick(d.rng, []choice[How]{{2, CommitUnsent}, {1, Reset}, {1, Close}, {1, Cut}})
	return []Fault{{BetweenNodes, how}}
}

// undone is how a fault leaves nothing behind.
func (d *drawer) undone(kind Kind) How {
	ends := 1
	if d.refused {
		ends = 0
	}
	hows := []choice[How]{{1, EffectBegins}, {ends, EffectEnds}}
	switch kind {
	case Kill:
		hows = append(hows, choice[How]{2, CommitUnsent})
	case Terminate:
	default:
		return ""
	}
	how, _ := pick(d.rng, hows)
	return how
}

// done is how a fault leaves the write done.
func (d *drawer) done(kind Kind) How {
	switch kind {
	case LostAnswer:
		return d.loss()
	case Kill:
		how, _ := pick(d.rng, []choice[How]{{1, CommitSent}, {1, Committed}})
		return how
	default:
		return ""
	}
}

func (d *drawer) loss() How {
	how, _ := pick(d.rng, []choice[How]{{1, Reset}, {1, Close}, {1, Cut}})
	return how
}
