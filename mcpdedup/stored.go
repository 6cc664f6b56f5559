package mcpdedup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// stored is a tool's result as it is recorded. Additions of the protocol's version are left out,
// because a client with another version may get the replay.
type stored struct {
	// Form is door.MiddlewareForm.
	Form int `json:"io.github.tooldedup/result"`

	Meta              json.RawMessage `json:"_meta,omitempty"`
	Content           json.RawMessage `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
}

// unrecorded is an effect's error for an answer that is not recorded. It unwraps to the cause, by
// which dedup decides whether to try again.
type unrecorded struct {
	result mcp.Result
	err    error
	cause  error
}

func (e *unrecorded) Error() string { return "mcpdedup: the tool's handler failed" }
func (e *unrecorded) Unwrap() error { return e.cause }

// record returns the text to record for a handler's answer.
func record(result mcp.Result, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, &unrecorded{err: err, cause: err}
	}
	res, ok := result.(*mcp.CallToolResult)
	switch {
	case !ok || res == nil:
		return nil, &dedup.InvalidError{What: "result", Reason: fmt.Sprintf("is a %T, which is no result of a tool", result)}
	case res.IsError, res.InputRequests != nil, res.NeedsInput():
		return nil, &unrecorded{result: res, cause: res.GetError()}
	}
	text, err := json.Marshal(&mcp.CallToolResult{Meta: res.Meta, Content: res.Content, StructuredContent: res.StructuredContent})
	if err != nil {
		return nil, &dedup.InvalidError{What: "result", Reason: "cannot be encoded", Err: err}
	}
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, &dedup.InvalidError{What: "result", Reason: "cannot be encoded", Err: err}
	}
	s.Form = door.MiddlewareForm
	return json.Marshal(s)
}

// replay returns a recorded result. It keeps the text of numbers, which may be longer than a
// float64.
func replay(text json.RawMessage, meta mcp.Meta) (*mcp.CallToolResult, error) {
	var s stored
	res := &mcp.CallToolResult{}
	if err := errors.Join(json.Unmarshal(text, &s), json.Unmarshal(text, res)); err != nil {
		return nil, &dedup.InvalidError{What: "result", Reason: "is recorded, and cannot be decoded", Stored: text, Err: err}
	}
	if s.Form != door.MiddlewareForm {
		return nil, &dedup.InvalidError{What: "result", Reason: "was recorded by a tool that is not behind Middleware", Stored: text}
	}
	if s.StructuredContent != nil {
		res.StructuredContent = s.StructuredContent
	}
	if s.Meta != nil {
		dec := json.NewDecoder(bytes.NewReader(s.Meta))
		dec.UseNumber()
		if err := dec.Decode(&res.Meta); err != nil {
			return nil, &dedup.InvalidError{What: "result", Reason: "is recorded, and cannot be decoded", Stored: text, Err: err}
		}
	}
	if meta != nil && res.Meta == nil {
		res.Meta = mcp.Meta{}
	}
	maps.Copy(res.Meta, meta)
	return res, nil
}
