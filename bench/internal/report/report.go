// Package report holds what a run of the benchmark has found, and writes it: as a
// table for people and as JSON for everything else. All durations are nanoseconds
// in the JSON.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// A Kind is what is measured of a way.
type Kind string

// The kinds of calls.
const (
	First  Kind = "first"   // a call with a new key
	Replay Kind = "replay"  // of one of many calls that were made
	OneKey Kind = "one-key" // of one call, by all clients at the same time, in one process
)

// A Report is what a run has found.
type Report struct {
	Machine  Machine   `json:"machine"`
	Settings Settings  `json:"settings"`
	Lines    []Line    `json:"lines"`
	Ways     []Way     `json:"ways"`
	Cells    []Cell    `json:"cells"`
	Costs    []Cost    `json:"costs"`
	Skipped  []Skipped `json:"skipped"`
}

// Settings are what the run was asked for.
type Settings struct {
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"duration_ns"` // of one cell in one round
	MinOps   int           `json:"min_ops"`     // of one cell in one round
	To       string        `json:"to"`          // the way that the ratios are to
}

// A Line is the way to the servers.
type Line struct {
	Delay     time.Duration `json:"delay_ns"`      // asked for, each way; 0: no proxy
	RoundTrip time.Duration `json:"round_trip_ns"` // of SELECT 1, measured, median
}

// A Way is one that was measured.
type Way struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Batch int    `json:"batch"` // calls in one operation; latencies are those of operations
}

// A Cell is the measure of one way under one load.
type Cell struct {
	Way     string        `json:"way"`
	Kind    Kind          `json:"kind"`
	Delay   time.Duration `json:"delay_ns"`
	Clients int           `json:"clients"`

	PerSecond float64       `json:"per_second"` // calls; median over the rounds
	Slowest   float64       `json:"slowest"`    // calls a second in the slowest round
	Fastest   float64       `json:"fastest"`    // and in the fastest
	P50       time.Duration `json:"p50_ns"`     // of an operation, over all rounds
	P99       time.Duration `json:"p99_ns"`
	Ops       int           `json:"ops"` // behind the percentiles
	// Processor is the time that the client's process used for a call; median over the rounds.
	Processor time.Duration `json:"client_processor_ns"`
	Ratio     float64       `json:"ratio"` // of PerSecond to that of Settings.To; median over the rounds
	RatioLow  float64       `json:"ratio_low"`
	RatioHigh float64       `json:"ratio_high"`
}

// A Cost is what one call of a way costs, measured with one client on loopback.
type Cost struct {
	Way  string `json:"way"`
	Kind Kind   `json:"kind"`

	RoundTrips      float64 `json:"round_trips"`       // with Postgres
	RedisRoundTrips float64 `json:"redis_round_trips"` // with Redis
	WALBytes        float64 `json:"wal_bytes"`
	PageImages      float64 `json:"page_images"` // in those bytes; about 0, or the warming failed
	Flushes         float64 `json:"flushes"`     // of the WAL to disk
	Allocs          float64 `json:"allocs"`      // on the client
	AllocBytes      float64 `json:"alloc_bytes"`
	StoredBytes     float64 `json:"stored_bytes"` // of First only: records, their indexes, without the effect
}

// Skipped is a way that was not measured, and why.
type Skipped struct {
	Way    string `json:"way"`
	Reason string `json:"reason"`
}

// Cell returns the cell of the way under the load.
func (r *Report) Cell(way string, kind Kind, delay time.Duration, clients int) (Cell, bool) {
	return find(r.Cells, func(c Cell) bool {
		return c.Way == way && c.Kind == kind && c.Delay == delay && c.Clients == clients
	})
}

// Way returns the way of the name.
func (r *Report) Way(name string) (Way, bool) {
	return find(r.Ways, func(w Way) bool { return w.Name == name })
}

// Cost returns the cost of the way.
func (r *Report) Cost(way string, kind Kind) (Cost, bool) {
	return find(r.Costs, func(c Cost) bool { return c.Way == way && c.Kind == kind })
}

func find[T any](all []T, wanted func(T) bool) (found T, ok bool) {
	for _, one := range all {
		if wanted(one) {
			return one, true
		}
	}
	return found, false
}

// WriteJSON writes a result, as a Report, to the file.
func WriteJSON(file string, result any) error {
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// ReadJSON reads what [WriteJSON] has written.
func ReadJSON[R any](file string) (*R, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	r := new(R)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("reading the result %s: %w", file, err)
	}
	return r, nil
}
