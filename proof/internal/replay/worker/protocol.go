// Package worker is a process that executes tool calls: a small agent runtime or tool server with
// its own connections to the database. It may be killed at any moment.
//
// It reads a Task from the first line of its standard input and writes the address of its server to
// standard output. A Client delivers to it. The process ends when its input ends.
package worker

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
)

// Mode is a way to execute deliveries.
type Mode string

const (
	// Dedup runs writes with dedup.
	Dedup Mode = "dedup"
	// Naive runs writes in a plain transaction and repeats it after any error, as an ordinary retry
	// wrapper does.
	Naive Mode = "naive"
)

// Way is the way of deliveries to the tools of a worker.
type Way string

const (
	// Registry: Registry.Invoke in the worker's process, which gets whole deliveries.
	Registry Way = "registry"
	// HTTP: POST requests to a server in the worker, whose routes httpdedup wraps.
	HTTP Way = "http"
	// MCP: calls to MCP servers in the worker, over streamable HTTP. mcpdedup exposes the registry
	// through them.
	MCP Way = "mcp"
)

// Ways are all ways.
var Ways = [...]Way{Registry, HTTP, MCP}

// Networked reports whether callers reach the tools over connections that may be cut. The registry
// runs in the worker's process.
func (w Way) Networked() bool { return w != Registry }

// Task is the first line of a worker's input. It is not a command-line argument because the URL may
// have a password.
type Task struct {
	DatabaseURL string `json:"database_url"`
	// Name is the application_name of the worker's connections.
	Name string `json:"name"`
	Mode Mode   `json:"mode"`
	Way  Way    `json:"way"`
	// Tools are the tools of each domain.
	Tools map[string][]ledger.Tool `json:"tools,omitempty"`
}

// Delivery is one tool call, as a model's runtime delivers it.
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

// input returns the arguments in the tools' form.
func (d Delivery) input() json.RawMessage {
	text, _ := json.Marshal(ledger.In{Arguments: d.Args}) // they are JSON
	return text
}

// Answer is the result of a delivery.
type Answer struct {
	Text string `json:"text"`
	// Refused is true if the text is a refusal. Entry is the ledger's row of a write.
	Refused bool  `json:"refused,omitempty"`
	Entry   int64 `json:"entry,omitempty"`
	// Replayed is true if the answer came from a record.
	Replayed bool `json:"replayed,omitempty"`
	// Error is set without an answer. The delivery must be sent again.
	Error string `json:"error,omitempty"`
}

// Client delivers to one worker process. It is safe for concurrent use. After an error there is no
// answer, and the delivery must be sent again.
type Client interface {
	Deliver(ctx context.Context, d Delivery) (Answer, error)
	Close()
}

// Dial returns a client of the worker at a URL.
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
