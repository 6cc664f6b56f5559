package main

import (
	"context"
	"slices"
	"time"
)

// fate is what became of a change.
type fate struct {
	*mutant
	bin    string
	tried  bool
	caught bool
	by     []string
	tests  int // how many tests have run against it
}

// rounds are how many tests run against a change at once, until one fails; the
// last round has all that are left.
var rounds = []int{3, 9, 36, 1 << 20}

// limitOf bounds a round of so many tests. A change that makes a test hang is
// caught by it.
func limitOf(tests int) time.Duration { return time.Minute + time.Duration(tests)*2*time.Second }

// try runs the tests that reach the change until one fails.
func (w *worker) try(ctx context.Context, f *fate, tests []string) error {
	f.tried, f.caught, f.by, f.tests = true, false, nil, 0
	for _, size := range rounds {
		now := tests[:min(size, len(tests))]
		if tests = tests[len(now):]; len(now) == 0 {
			break
		}
		v, err := w.run(ctx, f.bin, f.id, limitOf(len(now)), now)
		if err != nil {
			return err
		}
		f.tests += len(now)
		if !v.passed {
			f.caught, f.by = true, v.failing
			return nil
		}
	}
	return nil
}

// reaching names the tests that reach a change, in their order.
func reaching(tests []*test, m *mutant, uses []place, without []string) []string {
	if m.fn != nil {
		uses = []place{{m.src.name, m.reach}}
	}
	var names []string
	for _, t := range tests {
		if t.fails || slices.Contains(without, t.name) {
			continue
		}
		if slices.ContainsFunc(uses, func(p place) bool { return t.reaches(p.file, p.line) }) {
			names = append(names, t.name)
		}
	}
	return names
}

// ranked puts those tests first that show the most of a file for their time:
// again and again the one that reaches the most blocks a second which no test
// before it does, and all blocks count anew when none is left.
func ranked(tests []*test, file string) []*test {
	left, seen := slices.Clone(tests), map[[2]int]bool{}
	var order []*test
	for len(left) > 0 {
		best, value := -1, 0.0
		for i, t := range left {
			fresh := 0
			for _, block := range t.lines[file] {
				if !seen[block] {
					fresh++
				}
			}
			// A tenth of a second is what any test takes.
			if v := float64(fresh) / (t.took.Seconds() + 0.1); v > value {
				best, value = i, v
			}
		}
		switch {
		case best < 0 && len(seen) == 0: // none of the others reaches the file
			return append(order, left...)
		case best < 0:
			clear(seen)
			continue
		}
		for _, block := range left[best].lines[file] {
			seen[block] = true
		}
		order = append(order, left[best])
		left = slices.Delete(left, best, best+1)
	}
	return order
}

// control runs the tests that caught something with no change planted, and
// returns those that fail all the same.
func control(ctx context.Context, workers []*worker, path string, fates []*fate) ([]string, error) {
	var tests []string
	for _, f := range fates {
		tests = append(tests, f.by...)
	}
	slices.Sort(tests)
	tests = slices.Compact(tests)
	groups := slices.Collect(slices.Chunk(tests, rounds[1]))
	unsound := make([][]string, len(groups))
	err := eachOf(ctx, workers, len(groups), func(w *worker, i int) error {
		for left := groups[i]; len(left) > 0; {
			v, err := w.run(ctx, path, 0, limitOf(len(left)), left)
			if err != nil || v.passed {
				return err
			}
			unsound[i] = append(unsound[i], v.failing...)
			left = slices.DeleteFunc(slices.Clone(left), func(name string) bool { return slices.Contains(v.failing, name) })
		}
		return nil
	})
	return slices.Concat(unsound...), err
}
