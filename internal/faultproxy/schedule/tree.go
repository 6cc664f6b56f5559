package schedule

import (
	"errors"
	"math/rand/v2"
	"slices"
)

// tree is the search: the decisions of the run at hand, and what is left to try at each.
//
// Of two orders that differ in two swappable trips next to each other, one is left out. The rule is that of sleep sets:
// when the first choice at a node has been explored, its trip sleeps in the other choices' runs, for as long as
// only trips are let go that it can be swapped with. A run that could only let a trip go that sleeps has been explored
// already.
type tree struct {
	nodes []*node
	depth int          // how many of them the run at hand has passed
	sleep map[int]bool // the actors whose trips sleep
	draw  *rand.Rand   // draws decisions in place of the search; nil for the search
}

// node is a decision.
type node struct {
	choices []int
	taken   int // an index of choices
}

var errRedundant = errors.New("this order was run already")

// start begins a run.
func (t *tree) start() { t.depth, t.sleep = 0, map[int]bool{} }

// next prepares the next run, and reports false where there is none.
func (t *tree) next() bool {
	if t.draw != nil {
		return true
	}
	for len(t.nodes) > 0 {
		last := t.nodes[len(t.nodes)-1]
		if last.taken++; last.taken < len(last.choices) {
			return true
		}
		t.nodes = t.nodes[:len(t.nodes)-1]
	}
	return false
}

// decide decides between choices. What was decided before must have been between the same ones.
func (t *tree) decide(choices []int) (*node, error) {
	if t.draw != nil {
		return &node{choices: []int{choices[t.draw.IntN(len(choices))]}}, nil
	}
	if t.depth == len(t.nodes) {
		t.nodes = append(t.nodes, &node{choices: choices})
	}
	n := t.nodes[t.depth]
	if !slices.Equal(n.choices, choices) {
		return nil, errDiverged
	}
	t.depth++
	return n, nil
}

// rarely is how many trips meet no fault for one that does, where decisions are drawn.
const rarely = 4

// label decides which fault a trip meets, by its number; 0 is none.
func (t *tree) label(faults int) (int, error) {
	if t.draw != nil && t.draw.IntN(rarely+1) > 0 {
		return 0, nil
	}
	choices := make([]int, faults+1)
	for i := range choices {
		choices[i] = i
	}
	n, err := t.decide(choices)
	if err != nil {
		return 0, err
	}
	return n.choices[n.taken], nil
}

// choose decides which of the actors lets its trip go.
func (t *tree) choose(ready []int, shareOf func(actor int) share) (int, error) {
	var awake []int
	for _, a := range ready {
		if !t.sleep[a] {
			awake = append(awake, a)
		}
	}
	if len(awake) == 0 {
		return 0, errRedundant
	}
	n, err := t.decide(awake)
	if err != nil {
		return 0, err
	}
	for _, earlier := range n.choices[:n.taken] {
		t.sleep[earlier] = true
	}
	chosen := n.choices[n.taken]
	for a := range t.sleep {
		if !swappable(shareOf(a), shareOf(chosen)) {
			delete(t.sleep, a)
		}
	}
	return chosen, nil
}

// passed wakes whoever sleeps and shares something with a trip that was let go without a choice.
func (t *tree) passed(actor int, s share, shareOf func(actor int) share) {
	for a := range t.sleep {
		if a == actor || !swappable(shareOf(a), s) {
			delete(t.sleep, a)
		}
	}
}
