package dedup

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Stats is what a Deduper has counted since [New], in this process. Of tools with effects
// outside of the database it counts the transactions that record an answer, and not the time
// at the provider, nor calls that are parked: see package external's ExternalTracer and
// Tools.Parked.
type Stats struct {
	// Since is when the Deduper was made, by this machine's clock.
	Since time.Time
	// Calls are counted by tool and outcome, and sorted so. The sum of what one tool has is
	// the number of its calls that have come to an end.
	Calls []CallStats
	// InFlight are the calls that have not, the oldest first. The calls of a DoBatch that wait
	// for others of their part are among them.
	InFlight []InFlightCall
}

// CallStats counts the calls of a tool that had one outcome.
type CallStats struct {
	// Tool is as the callers gave it. The tools behind the first [MaxStatsTools], and
	// names that no tool may have, are counted as [OtherTools].
	Tool    string
	Outcome Outcome
	Calls   int64
	// Duration is the sum of the time that the calls took, and Waited the part of it that
	// they spent waiting for twins.
	Duration, Waited time.Duration
}

// InFlightCall is a call that has not come to an end.
type InFlightCall struct {
	CallData
	// StartedAt is when it began, by this machine's clock.
	StartedAt time.Time
}

const (
	// MaxStatsTools is how many tools a Deduper counts by name.
	MaxStatsTools = 200
	// OtherTools is the tool that calls of all others are counted for.
	OtherTools = "_other"
)

// stats counts calls, and has those that are on their way.
type stats struct {
	since time.Time

	mu     sync.Mutex
	counts map[statsKey]*CallStats
	tools  map[string]bool // those that are counted by name
	// oldest and newest are the ends of the list of spans that have not ended.
	oldest, newest *span
}

type statsKey struct {
	tool    string
	outcome Outcome
}

func (st *stats) start(s *span) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s.earlier = st.newest
	if s.earlier == nil {
		st.oldest = s
	} else {
		s.earlier.later = s
	}
	st.newest = s
}

func (st *stats) end(s *span, data *CallEndData) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s.earlier == nil {
		st.oldest = s.later
	} else {
		s.earlier.later = s.later
	}
	if s.later == nil {
		st.newest = s.earlier
	} else {
		s.later.earlier = s.earlier
	}
	s.earlier, s.later = nil, nil

	count := st.counts[statsKey{data.Tool, data.Outcome}]
	if count == nil {
		count = st.newCount(statsKey{st.named(data.Tool), data.Outcome})
	}
	count.Calls++
	count.Duration += data.Duration
	count.Waited += data.Waited
}

// named is the name to count under: the tool's, or OtherTools.
func (st *stats) named(tool string) string {
	switch {
	case st.tools[tool]:
		return tool
	case len(st.tools) == MaxStatsTools, validateName("Tool", tool) != nil:
		return OtherTools
	}
	if st.tools == nil {
		st.tools = make(map[string]bool)
	}
	st.tools[tool] = true
	return tool
}

func (st *stats) newCount(key statsKey) *CallStats {
	count := st.counts[key]
	if count == nil {
		if st.counts == nil {
			st.counts = make(map[statsKey]*CallStats)
		}
		count = &CallStats{Tool: key.tool, Outcome: key.outcome}
		st.counts[key] = count
	}
	return count
}

// calls are the counts, in no order.
func (st *stats) calls() []CallStats {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.copied()
}

func (st *stats) copied() []CallStats {
	var all []CallStats
	for _, count := range st.counts {
		all = append(all, *count)
	}
	return all
}

func (st *stats) snapshot() Stats {
	st.mu.Lock()
	defer st.mu.Unlock()
	all := Stats{Since: st.since, Calls: st.copied()}
	slices.SortFunc(all.Calls, func(a, b CallStats) int {
		return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Outcome, b.Outcome))
	})
	for s := st.oldest; s != nil; s = s.later {
		call := InFlightCall{CallData: s.data, StartedAt: s.began}
		call.KeyHash = KeyHash(call.Key)
		all.InFlight = append(all.InFlight, call)
	}
	return all
}
