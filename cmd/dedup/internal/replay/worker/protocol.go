// Package worker is a process that delivers tool calls: a small agent runtime
// of its own, with its own connections, which may be killed at any moment.
//
// It is told what to do on standard input and answers on standard output, one
// JSON object a line: first a Hello, then one Answer for each Delivery, in
// order. The end of its input ends it.
package worker

import "encoding/json"

// Mode is how deliveries are executed.
type Mode string

const (
	// Dedup runs writes through dedup.Do.
	Dedup Mode = "dedup"
	// Naive runs writes in a plain transaction that is repeated after any
	// error, as an ordinary retry wrapper does.
	Naive Mode = "naive"
)

// Hello is the first line that a worker reads. It is no command-line argument
// because the URL may hold a password.
type Hello struct {
	DatabaseURL string `json:"database_url"`
	// Name is the application_name of the worker's connections.
	Name string `json:"name"`
	Mode Mode   `json:"mode"`
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
	// Write tells that the call may change the database. Others are executed
	// in a plain transaction in every mode.
	Write bool `json:"write"`
}

// Answer is what became of the delivery of the same ID.
type Answer struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
	// Replayed tells that the answer came from a record.
	Replayed bool `json:"replayed,omitempty"`
	// Error tells that there is no answer; the delivery must be sent again.
	Error string `json:"error,omitempty"`
}
