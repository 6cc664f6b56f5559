package replay

import (
	"hash/fnv"
	"math/rand/v2"
)

// choice is one of several, drawn as often as its weight says.
type choice[T any] struct {
	weight int
	value  T
}

// variants are kinds of faults with the ways in which they strike, none where there is one alone.
type variants []struct {
	choice[faultKind]
	hows []choice[how]
}

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

var (
	losses = []choice[how]{{1, reset}, {1, closed}, {1, cut}}
	// undone leave nothing behind, and done leaves the write done.
	undone = variants{
		{choice[faultKind]{4, cutBeforeCommit}, nil},
		{choice[faultKind]{3, terminate}, []choice[how]{{1, effectBegins}, {1, effectEnds}}},
		{choice[faultKind]{2, kill}, []choice[how]{{1, effectBegins}, {1, effectEnds}, {2, commitUnsent}}},
	}
	done = variants{
		{choice[faultKind]{4, lostAnswer}, losses},
		{choice[faultKind]{2, delayedCommit}, nil},
		{choice[faultKind]{1, kill}, []choice[how]{{1, commitSent}, {1, committed}}},
	}
	later       = variants{{choice[faultKind]{1, lostReply}, losses}}
	connections = variants{{choice[faultKind]{1, cutConnection}, []choice[how]{{1, requestSent}, {1, answerLost}, {1, answerBroken}}}}
	nodes       = variants{{choice[faultKind]{1, betweenNodes}, []choice[how]{{2, commitUnsent}, {1, reset}, {1, closed}, {1, cut}}}}
)

// drawer draws the plan of one write. A refused write has no statement at the end of its effect to aim at.
type drawer struct {
	rng     *rand.Rand
	refused bool
	set     kindSet
}

// draw returns the plan of the write that ref names.
func draw(seed uint64, ref string, refused bool, set kindSet) writePlan {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(ref))
	d := drawer{rng: rand.New(rand.NewPCG(seed, hash.Sum64())), refused: refused, set: set}

	rounds := make([]round, 1+d.rng.IntN(maxRounds))
	for i := range rounds {
		rounds[i].workers = d.rng.Perm(workerCount)[:d.size()]
		if i > 0 {
			rounds[i].faults = append(d.faults(later, firstLostReply), d.faults(later, secondLostReply)...)
			continue
		}
		many, _ := pick(d.rng, []choice[int]{{15, 0}, {45, 1}, {40, 2}})
		for range many {
			rounds[i].faults = append(rounds[i].faults, d.fault(undone)...)
		}
		if d.rng.Float64() < committedShare {
			rounds[i].faults = append(rounds[i].faults, d.fault(done)...)
		}
	}
	last := d.rng.IntN(workerCount)
	for i := range rounds { // after all else, so that the rest of a plan does not depend on it
		rounds[i].faults = append(rounds[i].faults, d.faults(connections, cutConnectionShare)...)
	}
	rounds[0].faults = append(rounds[0].faults, d.faults(nodes, betweenNodesShare)...)
	return writePlan{rounds: rounds, last: last}
}

// size is how many deliveries a round has.
func (d *drawer) size() int {
	sizes := []choice[int]{{7, 1}}
	if d.set[twins2] {
		sizes = append(sizes, choice[int]{6, 2})
	}
	if d.set[twins8] {
		sizes = append(sizes, choice[int]{7, 8})
	}
	size, _ := pick(d.rng, sizes)
	return size
}

// faults draws one in a share of all cases. Where the one kind may not be used nothing is drawn at all.
func (d *drawer) faults(one variants, share float64) []fault {
	if !d.set[one[0].value] || d.rng.Float64() >= share {
		return nil
	}
	return d.fault(one)
}

// fault draws one of those kinds that may be used, and how it strikes.
func (d *drawer) fault(all variants) []fault {
	var kinds []choice[faultKind]
	hows := map[faultKind][]choice[how]{}
	for _, v := range all {
		if !d.set[v.value] {
			continue
		}
		kinds = append(kinds, v.choice)
		for _, h := range v.hows {
			if h.value != effectEnds || !d.refused {
				hows[v.value] = append(hows[v.value], h)
			}
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	kind := kinds[0].value
	if len(all) > 1 {
		kind, _ = pick(d.rng, kinds)
	}
	h, _ := pick(d.rng, hows[kind])
	return []fault{{kind, h}}
}

// pick draws one, and reports false where there is none.
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
