package replay

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

// draw returns the plan of the write that ref names. A refused write has no
// statement at the end of its effect to aim at.
func draw(seed uint64, ref string, refused bool, set kindSet) writePlan {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(ref))
	d := drawer{rng: rand.New(rand.NewPCG(seed, hash.Sum64())), refused: refused, set: set}

	rounds := make([]round, 1+d.rng.IntN(maxRounds))
	for i := range rounds {
		rounds[i].workers = d.rng.Perm(workerCount)[:d.size()]
		if i == 0 {
			rounds[i].faults = d.first()
		} else {
			rounds[i].faults = d.later()
		}
	}
	last := d.rng.IntN(workerCount)
	for i := range rounds { // after all else, so that the rest of a plan does not depend on it
		rounds[i].faults = append(rounds[i].faults, d.connections()...)
	}
	rounds[0].faults = append(rounds[0].faults, d.nodes()...)
	return writePlan{rounds: rounds, last: last}
}

type drawer struct {
	rng     *rand.Rand
	refused bool
	set     kindSet
}

// weight is w for a kind that may be used.
func (d *drawer) weight(w int, kind faultKind) int {
	if !d.set[kind] {
		return 0
	}
	return w
}

func (d *drawer) size() int {
	size, _ := pick(d.rng, []choice[int]{
		{7, 1}, {d.weight(6, twins2), 2}, {d.weight(7, twins8), 8},
	})
	return size
}

func (d *drawer) first() []fault {
	var faults []fault
	undone, _ := pick(d.rng, []choice[int]{{15, 0}, {45, 1}, {40, 2}})
	for range undone {
		kind, ok := pick(d.rng, []choice[faultKind]{
			{d.weight(4, cutBeforeCommit), cutBeforeCommit},
			{d.weight(3, terminate), terminate},
			{d.weight(2, kill), kill},
		})
		if ok {
			faults = append(faults, fault{kind, d.undone(kind)})
		}
	}
	if d.rng.Float64() >= committedShare {
		return faults
	}
	kind, ok := pick(d.rng, []choice[faultKind]{
		{d.weight(4, lostAnswer), lostAnswer},
		{d.weight(2, delayedCommit), delayedCommit},
		{d.weight(1, kill), kill},
	})
	if ok {
		faults = append(faults, fault{kind, d.done(kind)})
	}
	return faults
}

func (d *drawer) later() []fault {
	var faults []fault
	for _, share := range [...]float64{firstLostReply, secondLostReply} {
		if d.set[lostReply] && d.rng.Float64() < share {
			faults = append(faults, fault{lostReply, d.loss()})
		}
	}
	return faults
}

func (d *drawer) connections() []fault {
	if !d.set[cutConnection] || d.rng.Float64() >= cutConnectionShare {
		return nil
	}
	h, _ := pick(d.rng, []choice[how]{{1, requestSent}, {1, answerLost}, {1, answerBroken}})
	return []fault{{cutConnection, h}}
}

func (d *drawer) nodes() []fault {
	if !d.set[betweenNodes] || d.rng.Float64() >= betweenNodesShare {
		return nil
	}
	h, _ := pick(d.rng, []choice[how]{{2, commitUnsent}, {1, reset}, {1, closed}, {1, cut}})
	return []fault{{betweenNodes, h}}
}

// undone is how a fault leaves nothing behind.
func (d *drawer) undone(kind faultKind) how {
	ends := 1
	if d.refused {
		ends = 0
	}
	hows := []choice[how]{{1, effectBegins}, {ends, effectEnds}}
	switch kind {
	case kill:
		hows = append(hows, choice[how]{2, commitUnsent})
	case terminate:
	default:
		return ""
	}
	h, _ := pick(d.rng, hows)
	return h
}

// done is how a fault leaves the write done.
func (d *drawer) done(kind faultKind) how {
	switch kind {
	case lostAnswer:
		return d.loss()
	case kill:
		h, _ := pick(d.rng, []choice[how]{{1, commitSent}, {1, committed}})
		return h
	default:
		return ""
	}
}

func (d *drawer) loss() how {
	h, _ := pick(d.rng, []choice[how]{{1, reset}, {1, closed}, {1, cut}})
	return h
}
