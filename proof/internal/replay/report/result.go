// Package report says how a replay came out: as a table, as JSON and as a page.
package report

import (
	"fmt"
	"strings"

	"github.com/tooldedup/dedup/proof/internal/replay/metrics"
	"github.com/tooldedup/dedup/proof/internal/replay/payment"
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

	// External is there where calls paid outside of the database.
	External *External `json:"external,omitempty"`

	// Metrics is there where the workers exported theirs.
	Metrics *Metrics `json:"metrics,omitempty"`

	Seconds float64 `json:"seconds"`

	// Naive is the other arm of a comparison.
	Naive *Result `json:"naive,omitempty"`
}

// Metrics compares what workers export to Prometheus with what they answered.
type Metrics struct {
	Seen     metrics.Calls `json:"seen"`
	Exported metrics.Calls `json:"exported"`
	// Disagree counts the tools whose exported counts are others than those that were seen. With
	// a process that is killed its counts are lost: then only those are counted of which
	// more is exported.
	Disagree int `json:"disagree"`
}

// External is what became of the calls that paid outside of the database.
type External struct {
	Kind payment.Kind `json:"kind"`
	// Calls counts those calls, Refused those of them that the tool refused before it paid,
	// Requests what came to the provider, and Mishaps its requests without an answer.
	Calls    int                    `json:"calls"`
	Refused  int                    `json:"refused"`
	Requests int                    `json:"requests"`
	Mishaps  map[payment.Mishap]int `json:"mishaps"`
	// Parked counts how often a call was, and Happened how often it had happened by then, as the
	// provider's book says.
	Parked   int `json:"parked"`
	Happened int `json:"parked_happened"`

	// Known counts parked calls of which it could be known what became of them; Doubled and
	// Lost compare calls with the provider's book, Wrong the records with it, and Local counts calls
	// whose own writes, with claim and record, are not there once.
	Known   int `json:"parked_known"`
	Doubled int `json:"doubled"`
	Lost    int `json:"lost"`
	Wrong   int `json:"wrong"`
	Local   int `json:"local"`
}

// figures are those that have to be zero.
func (e *External) figures() []figure {
	return []figure{
		{"doubled payments", e.Doubled},
		{"lost payments", e.Lost},
		{"records that are not in the book", e.Wrong},
		{"local writes that are not there once", e.Local},
		{"parked, and it could be known", e.Known},
	}
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
	figures := r.figures()
	if r.External != nil {
		figures = append(figures, r.External.figures()...)
	}
	if r.Metrics != nil {
		figures = append(figures, figure{"tools whose metrics do not agree", r.Metrics.Disagree})
	}
	for _, figure := range figures {
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
