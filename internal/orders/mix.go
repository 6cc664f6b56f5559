package orders

import (
	"strings"

	"github.com/tooldedup/dedup/internal/faultproxy/schedule"
)

// Mix is a set of calls to run in every order.
type Mix struct {
	// Ways are the callers' ways, one each.
	Ways []Way
	// Twice makes the first caller call again by the same Deduper after its answer.
	Twice bool
	// Before is the state of the identity.
	Before Before
	// Beside runs beside the calls.
	Beside Beside
	// Faults are the possible faults of one trip of each run.
	Faults []schedule.Fault
	// Fails is the first run of a caller's effect that fails; 0 is never.
	Fails int64
}

// Before is the state of an identity before a run.
type Before string

// The states.
const (
	Nothing  Before = ""
	Recorded Before = "recorded" // a valid record
	Due      Before = "due"      // a record that may be forgotten
)

// Beside is an operation that runs once beside the calls.
type Beside string

// The operations.
const (
	Reset Beside = "Reset"
	Sweep Beside = "Sweep"
)

func (m Mix) String() string {
	var names []string
	for _, w := range m.Ways {
		names = append(names, w.Name)
	}
	if m.Twice {
		names[0] += " twice"
	}
	if m.Beside != "" {
		names = append(names, string(m.Beside))
	}
	s := strings.Join(names, "+")
	for _, part := range []struct {
		there bool
		name  string
	}{
		{m.Before != Nothing, string(m.Before)}, {len(m.Faults) > 0, "a fault"}, {m.Fails == 1, "the effect fails"}, {m.Fails == 2, "a second run fails"},
	} {
		if part.there {
			s += ", " + part.name
		}
	}
	return s
}

// Kind is a list of mixes of one kind.
type Kind struct {
	Name  string
	Mixes []Mix
}

// Kinds are all mixes.
func Kinds() []Kind {
	three, two := waysOf(3), waysOf(2)
	each := func(ways [][]Way, mixes ...Mix) (all []Mix) {
		for _, m := range mixes {
			for _, w := range ways {
				m.Ways = w
				all = append(all, m)
			}
		}
		return all
	}
	return []Kind{
		{"three callers", each(three, Mix{})},
		{"two callers and a Reset", each(two, Mix{Beside: Reset}, Mix{Beside: Reset, Before: Recorded})},
		{"two calls by one Deduper, and a Reset", each(waysOf(1), Mix{Beside: Reset, Twice: true}, Mix{Beside: Reset, Twice: true, Before: Recorded})},
		{"two callers and a sweep of a due record", each(two, Mix{Beside: Sweep, Before: Due})},
		{"two callers whose effect fails", each(two, Mix{Fails: 1})},
		{"two callers and a fault", each(two, Mix{Faults: schedule.Faults})},
		{"two callers and a fault, a second run fails", each(two, Mix{Faults: schedule.Faults, Fails: 2})},
	}
}

// waysOf returns all choices of n ways, in which the order does not count.
func waysOf(n int) [][]Way {
	var all [][]Way
	var choose func(from int, chosen []Way)
	choose = func(from int, chosen []Way) {
		if len(chosen) == n {
			all = append(all, chosen)
			return
		}
		for i := from; i < len(Ways); i++ {
			choose(i, append(chosen[:len(chosen):len(chosen)], Ways[i]))
		}
	}
	choose(0, nil)
	return all
}
