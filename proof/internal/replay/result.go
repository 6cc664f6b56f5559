package replay

import (
	"fmt"
	"strings"
)

// result is the figures of one arm.
type result struct {
	Mode      string `json:"mode"`    // "dedup" or "naive"
	Through   string `json:"through"` // the way to the tools: see package worker
	Recording string `json:"recording"`
	Postgres  string `json:"postgres"`
	Seed      uint64 `json:"seed"`

	// Sessions, Calls, Writes and Reads count the recording's. Reads includes the no-ops, and Calls
	// the calls that no model made.
	Sessions int `json:"sessions"`
	Calls    int `json:"calls"`
	Writes   int `json:"writes"`
	Reads    int `json:"reads"`

	// Deliveries counts the deliveries of writes to workers, and Rounds the concurrent groups of
	// them. Processes counts the worker processes.
	Deliveries int    `json:"deliveries"`
	Rounds     rounds `json:"rounds"`
	Processes  int    `json:"processes"`

	// Faults counts the applied faults by kind.
	Faults      map[faultKind]int `json:"faults"`
	FaultsTotal int               `json:"faults_total"`

	// Replayed counts the answers of writes from a record.
	Replayed int `json:"replayed"`
	// ReusedIDs counts the writes with the tool_call_id of an earlier write.
	ReusedIDs int `json:"reused_ids"`
	// RepeatedWrites counts the intended repeats of an earlier write of the session, with equal
	// arguments. RepeatedWritesRan counts the repeats that ran and were not answered from the
	// earlier record.
	RepeatedWrites    int `json:"repeated_writes"`
	RepeatedWritesRan int `json:"repeated_writes_ran"`

	// Doubled counts effects beyond the recorded ones, and Lost successful writes without an
	// effect. Wrong counts answers that differ from the recording or name another entry of the
	// ledger than the write's first.
	Doubled int `json:"doubled"`
	Wrong   int `json:"wrong"`
	Lost    int `json:"lost"`

	// Checked has the sources of the three figures above.
	Checked checked `json:"checked"`

	Seconds float64 `json:"seconds"`

	// Naive is the other arm of a comparison.
	Naive *result `json:"naive,omitempty"`
}

// rounds counts rounds by their number of deliveries.
type rounds struct {
	Single int `json:"single"`
	Twins2 int `json:"twins2"`
	Twins8 int `json:"twins8"`
	// Last counts the final deliveries, which have no faults.
	Last int `json:"last"`
}

func (r *rounds) count(deliveries int) {
	switch deliveries {
	case 1:
		r.Single++
	case 2:
		r.Twins2++
	default:
		r.Twins8++
	}
}

// checked counts the comparisons.
type checked struct {
	Answers int `json:"answers"` // of writes, reads and no-ops
	Effects int `json:"effects"` // rows of the ledger
	Records int `json:"records"` // rows of tool_dedup at the end
}

type figure struct {
	name  string
	value int
}

// outcome returns the figures that must be zero.
func (r *result) outcome() []figure {
	return []figure{
		{"doubled effects", r.Doubled},
		{"wrong answers", r.Wrong},
		{"lost writes", r.Lost},
	}
}

// failure describes the defects, "" for none.
func (r *result) failure() string {
	var parts []string
	for _, figure := range r.outcome() {
		if figure.value != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", figure.value, figure.name))
		}
	}
	return strings.Join(parts, ", ")
}
