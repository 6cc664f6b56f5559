// Package report says how a replay came out: as a table, as JSON and as a page.
package report

import (
	"fmt"
	"strings"

	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

// Result is the figures of one arm.
type Result struct {
	Mode      string `json:"mode"`    // "dedup" or "naive"
	Through   string `json:"through"` // the way to the tools: see package worker
	Recording string `json:"recording"`
	Postgres  string `json:"postgres"`
	Seed      uint64 `json:"seed"`

	// Sessions, Calls, Writes and Reads are what was replayed; Reads counts the
	// no-ops too. Calls counts also those that no model made.
	Sessions int `json:"sessions"`
	Calls    int `json:"calls"`
	Writes   int `json:"writes"`
	Reads    int `json:"reads"`

	// Deliveries counts how often a write was sent to a worker, Rounds how many
	// were sent at once. Processes counts the worker processes that ran.
	Deliveries int    `json:"deliveries"`
	Rounds     Rounds `json:"rounds"`
	Processes  int    `json:"processes"`

	// Faults counts those that were really applied, by kind.
	Faults      map[plan.Kind]int `json:"faults"`
	FaultsTotal int               `json:"faults_total"`

	// Replayed counts the answers of writes that came from a record.
	Replayed int `json:"replayed"`
	// ReusedIDs counts the writes whose tool_call_id an earlier write had.
	ReusedIDs int `json:"reused_ids"`
	// RepeatedWrites counts the writes that repeat an earlier one of their
	// session with equal arguments, on purpose; RepeatedWritesRan those of them
	// that ran and were not answered from the earlier one's record.
	RepeatedWrites    int `json:"repeated_writes"`
	RepeatedWritesRan int `json:"repeated_writes_ran"`

	// CutShort counts the writes that were not delivered to the end of their
	// plan, because what they answer grew without bounds.
	CutShort int `json:"cut_short"`

	// Doubled counts effects beyond the recorded ones, Wrong answers that are
	// not the recorded ones, Lost successful writes without an effect, and
	// StatesWrong sessions that left other rows than the recorded ones.
	Doubled     int `json:"doubled"`
	Wrong       int `json:"wrong"`
	Lost        int `json:"lost"`
	StatesWrong int `json:"states_wrong"`

	// Checked is what the four figures above were read from.
	Checked Checked `json:"checked"`

	Seconds float64 `json:"seconds"`

	// Naive is the other arm of a comparison.
	Naive *Result `json:"naive,omitempty"`
}

// Rounds counts rounds by the number of deliveries at once.
type Rounds struct {
	Single int `json:"single"`
	Twins2 int `json:"twins2"`
	Twins8 int `json:"twins8"`
	// Last are the deliveries without faults after the rounds.
	Last int `json:"last"`
}

// Checked counts what was compared.
type Checked struct {
	Answers int `json:"answers"` // of writes, reads and no-ops
	Effects int `json:"effects"` // rows of the audit log
	States  int `json:"states"`  // of sessions
	Records int `json:"records"` // rows of tool_dedup at the end
}

// Failure says in words what is wrong, "" where nothing is.
func (r *Result) Failure() string {
	var parts []string
	for _, figure := range r.figures() {
		if figure.value != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", figure.value, figure.name))
		}
	}
	return strings.Join(parts, ", ")
}

type figure struct {
	name  string
	value int
}

// figures are those that have to be zero.
func (r *Result) figures() []figure {
	return []figure{
		{"doubled effects", r.Doubled},
		{"wrong answers", r.Wrong},
		{"lost writes", r.Lost},
		{"wrong final states", r.StatesWrong},
	}
}
