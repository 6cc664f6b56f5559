package rpc

import (
	"encoding/json"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tooldedup/dedup"
)

// stored is an answer as it is recorded: the result of a call, or the details of a refusal. Both
// are bytes, because a JSON form loses unknown fields and breaks when a field is renamed.
type stored struct {
	// Form tells an answer of this package from other JSON, and its form from later ones.
	Form int `json:"rpc"`
	// Type is the full name of the message of Message.
	Type    string `json:"type,omitempty"`
	Message []byte `json:"message,omitempty"`
	// Status is a google.rpc.Status.
	Status []byte `json:"status,omitempty"`
}

const storedForm = 1

func encodeMessage(m proto.Message) (json.RawMessage, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, &dedup.InvalidError{What: "result", Reason: "cannot be encoded", Err: err}
	}
	return json.Marshal(stored{Form: storedForm, Type: string(m.ProtoReflect().Descriptor().FullName()), Message: encoded})
}

// decodeMessage reads what encodeMessage wrote.
func (m *method) decodeMessage(text json.RawMessage) (proto.Message, error) {
	var s stored
	err := json.Unmarshal(text, &s)
	if err == nil && s.Form == storedForm && s.Type == string(m.out.FullName()) {
		response := m.newResponse()
		if err = proto.Unmarshal(s.Message, response); err == nil {
			return response, nil
		}
	}
	return nil, &dedup.InvalidError{What: "result", Reason: "is recorded, and is no " + string(m.out.FullName()) + "; give tools of other packages other names", Stored: text, Err: err}
}

// refusal is a handler's final error. The record keeps its status.
type refusal struct {
	status *status.Status
	text   string
	err    error
}

// Error implements error. The record keeps the text.
func (e *refusal) Error() string { return e.text }

// Unwrap returns the handler's error, whose code the record keeps.
func (e *refusal) Unwrap() error { return e.err }

// MarshalJSON implements json.Marshaler. The record keeps the status as details. A status OK is an
// error: its client would expect a response.
func (e *refusal) MarshalJSON() ([]byte, error) {
	if code.Code(e.status.GetCode()) == code.Code_OK {
		return nil, errors.New("a final error has the status OK; give it the code of a refusal")
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(e.status)
	if err != nil {
		return nil, err
	}
	return json.Marshal(stored{Form: storedForm, Status: encoded})
}

// decodeStatus reads the status that a refusal has recorded. ok is false for a refusal of another
// door.
func decodeStatus(text json.RawMessage) (_ *status.Status, ok bool) {
	var s stored
	if json.Unmarshal(text, &s) != nil || s.Form != storedForm || len(s.Status) == 0 {
		return nil, false
	}
	refused := new(status.Status)
	return refused, proto.Unmarshal(s.Status, refused) == nil
}
