package replay

import (
	"fmt"
	"strings"

	"github.com/tooldedup/dedup/proof/internal/replay/payment"
)

// result is the figures of one arm.
type result struct {
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
	Rounds     rounds `json:"rounds"`
	Processes  int    `json:"processes"`

	// Faults counts those that were really applied, by kind.
	Faults      map[faultKind]int `json:"faults"`
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

	// Doubled counts effects beyond the recorded ones, Lost successful writes without an effect, and
	// Wrong answers that are not the recorded one or name another entry of the ledger than the
	// write's first.
	Doubled int `json:"doubled"`
	Wrong   int `json:"wrong"`
	Lost    int `json:"lost"`

	// Checked is what the three figures above were read from.
	Checked checked `json:"checked"`

	// External is there where calls paid outside of the database.
	External *externalResult `json:"external,omitempty"`

	// Metrics is there where the workers exported theirs.
	Metrics *metricsResult `json:"metrics,omitempty"`

	Seconds float64 `json:"seconds"`

	// Naive is the other arm of a comparison.
	Naive *result `json:"naive,omitempty"`
}

// rounds counts rounds by the number of deliveries at once.
type rounds struct {
	Single int `json:"single"`
	Twins2 int `json:"twins2"`
	Twins8 int `json:"twins8"`
	// Last are the deliveries without faults after the rounds.
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

// checked counts what was compared.
type checked struct {
	Answers int `json:"answers"` // of writes, reads and no-ops
	Effects int `json:"effects"` // rows of the ledger
	Records int `json:"records"` // rows of tool_dedup at the end
}

// metricsResult compares what workers export to Prometheus with what they answered.
type metricsResult struct {
	Seen     counts `json:"seen"`
	Exported counts `json:"exported"`
	// Disagree counts the tools whose exported counts are others than those that were seen. With
	// a process that is killed its counts are lost: then only those are counted of which
	// more is exported.
	Disagree int `json:"disagree"`
}

// externalResult is the figures of the calls that paid outside of the database.
type externalResult struct {
	Kind payment.Kind `json:"kind"`
	// Calls counts those calls, Refused those of them that the tool refused before it paid,
	// Requests what came to the provider, and Mishaps its requests without an answer.
	Calls    int                    `json:"calls"`
	Refused  int                    `json:"refused"`
	Requests int                    `json:"requests"`
	Mishaps  map[payment.Mishap]int `json:"mishaps"`
	// Parked counts how often a call was parked, and Happened those times at which it had been paid.
	Parked   int `json:"parked"`
	Happened int `json:"parked_happened"`
	// All below have to be zero. Known counts parked calls whose outcome could be known; Doubled and
	// Lost compare calls with the provider's book, Wrong the records with it, and Local counts calls
	// whose own writes, with the record, are not there once.
	Known   int `json:"parked_known"`
	Doubled int `json:"doubled"`
	Lost    int `json:"lost"`
	Wrong   int `json:"wrong"`
	Local   int `json:"local"`
}

type figure struct {
	name  string
	value int
}

// outcome are the figures that have to be zero.
func (r *result) outcome() []figure {
	return []figure{
		{"doubled effects", r.Doubled},
		{"wrong answers", r.Wrong},
		{"lost writes", r.Lost},
	}
}

// outcome are the figures that have to be zero.
func (e *externalResult) outcome() []figure {
	return []figure{
		{"doubled payments", e.Doubled},
		{"lost payments", e.Lost},
		{"records that are not in the book", e.Wrong},
		{"local writes that are not there once", e.Local},
		{"parked, and it could be known", e.Known},
	}
}

// failure says in words what is wrong, "" where nothing is.
func (r *result) failure() string {
	figures := r.outcome()
	if r.External != nil {
		figures = append(figures, r.External.outcome()...)
	}
	if r.Metrics != nil {
		figures = append(figures, figure{"tools whose metrics do not agree", r.Metrics.Disagree})
	}
	var parts []string
	for _, figure := range figures {
		if figure.value != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", figure.value, figure.name))
		}
	}
	return strings.Join(parts, ", ")
}
