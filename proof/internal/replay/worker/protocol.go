// Package worker is a process that executes tool calls: a small agent runtime
// or tool server of its own, with its own connections to the database, which may
// be killed at any moment.
//
// It is told what to do on standard input, one JSON object a line, and answers on
// standard output. The first line is a Hello. What follows depends on its Way: by
// way of the registry one Answer for each Delivery, in order; else one Answer
// with the address of a server, which a Client delivers to. With metrics such an Answer
// comes before those of the registry. The end of its input ends it.
package worker

import (
	"encoding/json"

	"github.com/tooldedup/dedup/proof/internal/replay/payment"
)

// Mode is how deliveries are executed.
type Mode string

const (
	// Dedup guards writes with dedup.
	Dedup Mode = "dedup"
	// Naive runs writes in a plain transaction that is repeated after any
	// error, as an ordinary retry wrapper does.
	Naive Mode = "naive"
)

// Setup is how all workers of a replay work.
type Setup struct {
	Mode Mode `json:"mode"`
	Way  Way  `json:"way"`
	// Schemas says that each domain has a schema of its own, of its name.
	Schemas bool `json:"schemas,omitempty"`
	// Pays says which kind of provider the tools that pay have, payment.Off for none, and
	// Provider is its URL.
	Pays     payment.Kind `json:"pays,omitempty"`
	Provider string       `json:"provider,omitempty"`
	// Metrics says that the worker's first answer is the address of a page for Prometheus.
	Metrics bool `json:"metrics,omitempty"`
	// Attempts bounds those of a call, 0 as the library does.
	Attempts int `json:"attempts,omitempty"`
}

// Hello is the first line that a worker reads. It is no command-line argument
// because the URL may hold a password.
type Hello struct {
	DatabaseURL string `json:"database_url"`
	// Name is the application_name of the worker's connections.
	Name string `json:"name"`
	Setup
}

// Delivery is one tool call, as a model's runtime would deliver it.
type Delivery struct {
	ID         int             `json:"id"`
	Session    string          `json:"session"`
	Turn       int             `json:"turn"`
	ToolCallID string          `json:"tool_call_id"`
	Scope      string          `json:"scope"`
	Domain     string          `json:"domain"`
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"`
	// Ref names the call in the application's audit log.
	Ref string `json:"ref"`
}

// Answer is what became of the delivery of the same ID.
type Answer struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
	// Replayed says that the answer came from a record, and Recovered that it was this
	// call's own.
	Replayed  bool `json:"replayed,omitempty"`
	Recovered bool `json:"recovered,omitempty"`
	// Parked says that there is no answer until somebody has found out what became of it.
	Parked bool `json:"parked,omitempty"`
	// Error says that there is no answer; the delivery must be sent again.
	Error string `json:"error,omitempty"`
	// Unknown says of an Error that the delivery may have had its effect.
	Unknown bool `json:"unknown,omitempty"`
	// Waits counts how often it waited for a twin.
	Waits int64 `json:"waits,omitempty"`
	// Address is the worker's server, in its first answer by way of a network or with
	// Metrics.
	Address string `json:"address,omitempty"`
}
