package schedule

import (
	"errors"
	"math/rand/v2"
	"slices"
)

// tree is the search: the decisions of the current run, and the choices that are left at each.
//
// Of two orders that differ in two adjacent swappable trips, one is left out, by the rule of sleep
// sets. After the first choice at a node was explored, its trip sleeps in the runs of the other
// choices, while only trips are released that it can be swapped with. A run that could only release
// a sleeping trip has been explored already.
type tree struct {
	nodes []*node
	depth int          // decisions that the current run has passed
	sleep map[int]bool // the actors whose trips sleep
	draw  *rand.Rand   // draws decisions instead of the search; nil for the search
}

// node is a decision.
type node struct {
	choices []int
	taken   int // an index of choices
}

var errRedundant = errors.New("this order was run already")

// start begins a run.
func (t *tree) start() { t.depth, t.sleep = 0, map[int]bool{} }

// next prepares the next run. It returns false if there is none.
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

// decide decides between choices. A repeated decision must have the same choices.
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

// rarely is the number of trips without a fault for each trip with one, in drawn orders.
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

// choose chooses the actor whose trip is released.
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

// passed wakes the sleepers that share something with a trip that was released without a choice.
func (t *tree) passed(actor int, s share, shareOf func(actor int) share) {
	for a := range t.sleep {
		if a == actor || !swappable(shareOf(a), s) {
			delete(t.sleep, a)
		}
	}
}
