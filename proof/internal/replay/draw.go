package replay

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
)

// The measures of a plan. Over the 269 recorded writes they come to some 3,400
// deliveries and 750 applied faults.
const (
	maxRounds = 5

	// A write commits once. The first round therefore has the faults that need a COMMIT: up to two
	// that leave nothing behind and then one that leaves the write done.
	committedShare = 0.8

	// Later rounds are answered from the record.
	firstLostReply, secondLostReply = 0.35, 0.1

	// Every round may lose a connection to a worker.
	cutConnectionShare = 0.4
)

// choice is one of several. Its weight is its frequency.
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

// option is a kind of fault and its variants.
type option struct {
	kind faultKind
	hows []choice[how]
}

// undone are faults that leave nothing behind, and done faults that leave the write done.
var (
	undone = []choice[option]{
		{4, option{cutBeforeCommit, nil}},
		{3, option{terminate, []choice[how]{{1, effectBegins}, {1, effectEnds}}}},
		{2, option{kill, []choice[how]{{1, effectBegins}, {1, effectEnds}, {2, commitUnsent}}}},
	}
	done = []choice[option]{
		{4, option{lostAnswer, losses}},
		{2, option{delayedCommit, nil}},
		{1, option{kill, []choice[how]{{1, commitSent}, {1, committed}}}},
	}
)

// These are the variants of a lost answer and of a cut connection to a worker.
var (
	losses = []choice[how]{{1, reset}, {1, closed}, {1, cut}}
	cuts   = []choice[how]{{1, requestSent}, {1, answerLost}, {1, answerBroken}}
)

// draw returns the plan of the write ref.
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
			rounds[i].faults = slices.Concat(d.perhaps(lostReply, firstLostReply, losses), d.perhaps(lostReply, secondLostReply, losses))
		}
	}
	last := d.rng.IntN(workerCount)
	for i := range rounds { // drawn last, so that the rest of a plan does not depend on it
		rounds[i].faults = append(rounds[i].faults, d.perhaps(cutConnection, cutConnectionShare, cuts)...)
	}
	return writePlan{rounds: rounds, last: last}
}

type drawer struct {
	rng     *rand.Rand
	refused bool
	set     kindSet
}

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

// first draws the faults of the round that commits.
func (d *drawer) first() (faults []fault) {
	times, _ := pick(d.rng, []choice[int]{{15, 0}, {45, 1}, {40, 2}})
	for range times {
		faults = append(faults, d.one(undone)...)
	}
	if d.rng.Float64() < committedShare {
		faults = append(faults, d.one(done)...)
	}
	return faults
}

// one draws a fault of an allowed kind.
func (d *drawer) one(of []choice[option]) []fault {
	o, ok := pick(d.rng, slices.DeleteFunc(slices.Clone(of), func(c choice[option]) bool { return !d.set[c.value.kind] }))
	if !ok {
		return nil
	}
	return []fault{{o.kind, d.how(o.hows)}}
}

// perhaps draws a fault of a kind, or none.
func (d *drawer) perhaps(kind faultKind, share float64, hows []choice[how]) []fault {
	if !d.set[kind] || d.rng.Float64() >= share {
		return nil
	}
	return []fault{{kind, d.how(hows)}}
}

// how draws a fault's variant. A refused write has no statement at the end of its effect.
func (d *drawer) how(hows []choice[how]) how {
	h, _ := pick(d.rng, slices.DeleteFunc(slices.Clone(hows), func(c choice[how]) bool { return d.refused && c.value == effectEnds }))
	return h
}
