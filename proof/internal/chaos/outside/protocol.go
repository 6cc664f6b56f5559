package outside

import (
	"time"

	"github.com/tooldedup/dedup/external"
)

// WorkerCommand is the name of the hidden command that is a worker process.
const WorkerCommand = "chaos-external-worker"

// hello is the first line that a worker reads.
type hello struct {
	URL      string        `json:"url"`
	Provider string        `json:"provider"`
	Arm      string        `json:"arm"`
	Lease    time.Duration `json:"lease"`
	Bound    float64       `json:"bound"`
	Conns    int           `json:"conns"`
	Kill     float64       `json:"kill"`
	Pause    float64       `json:"pause"`
	Seed     uint64        `json:"seed"`
}

// order is each further line: an operation to call, for which time, or an ask to be gone on from.
type order struct {
	Op  int `json:"op,omitempty"`
	Try int `json:"try,omitempty"`
	Go  int `json:"go,omitempty"`
}

// report is a line that a worker writes.
type report struct {
	// Op is an operation that was called, and Outcome what its caller was told. ID is the
	// provider's, of one that happened.
	Op      int     `json:"op,omitempty"`
	Outcome outcome `json:"outcome,omitempty"`
	ID      string  `json:"id,omitempty"`
	Error   string  `json:"error,omitempty"`

	// Ask asks the campaign to kill or halt the process, which has come to Step. N is the
	// number that Go answers.
	Ask  ask                `json:"ask,omitempty"`
	N    int                `json:"n,omitempty"`
	Step external.EventKind `json:"step,omitempty"`
}

type outcome string

const (
	happened  outcome = "happened"
	refused   outcome = "refused"
	parked    outcome = "parked"
	undone    outcome = "undone" // a saga
	unsettled outcome = "unsettled"
	// unnamed is an error that does not say that the outcome is open.
	unnamed outcome = "unnamed"
)

type ask string

const (
	askKill  ask = "kill"
	askPause ask = "pause"
)
