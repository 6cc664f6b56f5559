package mcpdedup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/tool"
)

// Where a call of an external tool stands.
const (
	statusPending = "pending"
	statusRunning = "running"
	statusParked  = "parked"
	statusDone    = "done"
	statusRefused = "refused"
	statusExpired = "expired"
	statusUnknown = "unknown"
)

// operation is what a call of an external tool is answered with, and getOperation. Its schema
// is declared, and fits every status: what a model is to do next stands in it, because some
// clients show models nothing but the structured content.
type operation struct {
	Status     string          `json:"status"`
	Operation  string          `json:"operation"`
	Message    string          `json:"message,omitempty"`
	RetryAfter int             `json:"retryAfter,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Duplicate  *bool           `json:"duplicate,omitempty"`
	FirstAt    string          `json:"firstAt,omitempty"`
}

func operationSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{
			"status": {
				Type:        "string",
				Enum:        []any{statusPending, statusRunning, statusParked, statusDone, statusRefused, statusExpired, statusUnknown},
				Description: "Only done has a result. running and pending have none yet. parked may have happened: do not repeat it with a new key.",
			},
			"operation":  {Type: "string", Description: "Names this call. Send it to " + getOperation + " to ask what became of it."},
			"message":    {Type: "string", Description: "What to do next."},
			"retryAfter": {Type: "integer", Description: "How many seconds to wait before asking again."},
			"duplicate":  {Type: "boolean", Description: "Whether this is the answer of an earlier call, and nothing was done now."},
			"firstAt":    {Type: "string", Format: "date-time", Description: "When the answer was recorded."},
		},
		PropertyOrder: []string{"status", "operation", "message", "retryAfter", "duplicate", "firstAt"},
		Required:      []string{"status", "operation"},
	}
}

// operationOf names a call. Names of tools have no "/" in MCP.
func operationOf(tool, key string) string { return tool + "/" + key }

// text is the operation as JSON, with <, > and & as they are.
func (o *operation) text() json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(o) // its parts are strings, numbers and what was found to be JSON
	return bytes.TrimSpace(b.Bytes())
}

func (o *operation) answer(meta mcp.Meta) *mcp.CallToolResult {
	if o.RetryAfter > 0 {
		meta[MetaRetryAfter] = o.RetryAfter
	}
	text := o.text()
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, StructuredContent: text, Meta: meta}
}

// doneOperation is the answer of an external tool with its envelope.
func (e *exposed) doneOperation(a tool.Answer) *mcp.CallToolResult {
	duplicate := isDuplicate(a.Replayed, a.Recovered)
	o := &operation{Status: statusDone, Operation: operationOf(e.info.Name, a.Key), Result: a.JSON, Duplicate: &duplicate, FirstAt: rfc3339(a.FirstAt)}
	return o.answer(e.opts.recordMeta(a.Key, duplicate, a.FirstAt))
}

// openOperation is what a call of an external tool is answered with that has no answer yet; nil for any
// other error. Neither is an error: the call goes on, or its outcome is not known.
func (e *exposed) openOperation(key string, f *failing, err error) *mcp.CallToolResult {
	o := &operation{Operation: operationOf(e.info.Name, key)}
	var parked *external.ParkedError
	switch {
	case errors.As(err, &parked):
		o.park()
	case errors.Is(err, dedup.ErrInFlight):
		o.Status, o.RetryAfter = statusRunning, e.opts.retryAfter()
		o.Message = fmt.Sprintf("It is still running. Wait %d seconds, then call again %s, or ask %s: the answer is its result.", o.RetryAfter, f.sameKey(), getOperation)
	default:
		return nil
	}
	return o.answer(mcp.Meta{e.opts.MetaKey: key})
}

// park says what nobody knows, and what is to be done meanwhile: nothing.
func (o *operation) park() {
	o.Status, o.RetryAfter = statusParked, int(parkedRetryAfter/time.Second)
	o.Message = "It may have happened. Do not repeat it with a new key. Somebody is looking into it. " +
		fmt.Sprintf("Ask %s later whether it has been found out.", getOperation)
}

// parkedRetryAfter is how long a person may well take.
const parkedRetryAfter = 5 * time.Minute
