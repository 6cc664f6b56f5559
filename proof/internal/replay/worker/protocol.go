// Package worker is a process that executes tool calls: a small agent runtime
// or tool server of its own, with its own connections to the database, which may
// be killed at any moment.
//
// It is told what to do by a Task on the first line of its standard input, and writes the address of
// its server on standard output. A Client delivers to it. The end of its input ends it.
package worker

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
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

// Way is how deliveries reach the tools of a worker.
type Way string

const (
	// Registry: Registry.Invoke in the worker's process, which is told of whole deliveries.
	Registry Way = "registry"
	// HTTP: POST requests to a server in the worker, whose routes httpdedup guards.
	HTTP Way = "http"
	// MCP: calls to MCP servers in the worker, over streamable HTTP. mcpdedup
	// exposes the registry through them.
	MCP Way = "mcp"
)

// Ways are all of them.
var Ways = [...]Way{Registry, HTTP, MCP}

// Networked reports whether callers reach the tools over a network, whose connections may be cut. The
// registry is called in the worker's own process.
func (w Way) Networked() bool { return w != Registry }

// Task is the first line that a worker reads. It is no command-line argument
// because the URL may hold a password.
type Task struct {
	DatabaseURL string `json:"database_url"`
	// Name is the application_name of the worker's connections.
	Name string `json:"name"`
	Mode Mode   `json:"mode"`
	Way  Way    `json:"way"`
	// Tools are those of each domain.
	Tools map[string][]ledger.Tool `json:"tools,omitempty"`
	// Schemas says that each domain has a schema of its own, of its name.
	Schemas bool `json:"schemas,omitempty"`
	// Pays says with which kind of provider writes act outside of the database, payment.Off for none,
	// and Provider is its URL.
	Pays     payment.Kind `json:"pays,omitempty"`
	Provider string       `json:"provider,omitempty"`
	// Metrics says that the worker has a page for Prometheus at /metrics.
	Metrics bool `json:"metrics,omitempty"`
	// Attempts bounds those of a call, 0 as the library does.
	Attempts int `json:"attempts,omitempty"`
}

// Delivery is one tool call, as a model's runtime would deliver it.
type Delivery struct {
	Session    string          `json:"session"`
	Turn       int             `json:"turn"`
	ToolCallID string          `json:"tool_call_id"`
	Scope      string          `json:"scope"`
	Domain     string          `json:"domain"`
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"`
	// Ref names the call in the ledger.
	Ref string `json:"ref"`
}

// input is the arguments as the tools take them.
func (d Delivery) input() json.RawMessage {
	text, _ := json.Marshal(ledger.In{Arguments: d.Args}) // they are JSON
	return text
}

// Answer is the result of a delivery.
type Answer struct {
	Text string `json:"text"`
	// Refused says that the text is a refusal. Entry is the row of the ledger that a write has added.
	Refused bool  `json:"refused,omitempty"`
	Entry   int64 `json:"entry,omitempty"`
	// Replayed says that the answer came from a record, and Recovered that it was this
	// call's own.
	Replayed  bool `json:"replayed,omitempty"`
	Recovered bool `json:"recovered,omitempty"`
	// Parked says that there is no answer until somebody has resolved the operation.
	Parked bool `json:"parked,omitempty"`
	// Error says that there is no answer; the delivery must be sent again.
	Error string `json:"error,omitempty"`
	// Unknown says of an Error that the delivery may have had its effect.
	Unknown bool `json:"unknown,omitempty"`
	// Waits counts how often it waited for a twin.
	Waits int64 `json:"waits,omitempty"`
}

// Client delivers to one worker process. It may be used by several goroutines. After an
// error there is no answer, and the delivery must be sent again.
type Client interface {
	Deliver(ctx context.Context, d Delivery) (Answer, error)
	Close()
}

// Dial returns a client of the worker that is to be reached at a URL.
func (w Way) Dial(url string) Client {
	web := &http.Client{Transport: &http.Transport{}}
	switch w {
	case HTTP:
		return &httpClient{url, web}
	case MCP:
		return newMCPClient(url, web)
	default:
		return &registryClient{url, web}
	}
}
