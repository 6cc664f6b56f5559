package external

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/canon"
)

func decode[T any](raw json.RawMessage) (value T, err error) {
	err = guarded(func() error { return json.Unmarshal(raw, &value) })
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // whose text has the value
		return value, fmt.Errorf("dedup: the stored input or result no longer fits the tool's type: %q is no %s", wrong.Field, wrong.Type)
	}
	if err != nil {
		return value, errors.New("dedup: the stored input or result no longer fits the tool's type")
	}
	return value, nil
}

// decodeInput reads an input as a whole: a member that In lacks is one that another release has written,
// and without it the effect would be another. Its error names the member at fault, and no value.
func decodeInput[In any](raw json.RawMessage) (in In, err error) {
	reason := "cannot be read as the tool's input"
	err = guarded(func() error { return json.Unmarshal(raw, &in) })
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		reason = fmt.Sprintf("does not fit the tool's input at %q", wrong.Field)
	}
	if err == nil {
		unknown := strictly[In](raw)
		if unknown == nil {
			return in, nil
		}
		reason = "has a member that the tool's input lacks: " + strings.TrimPrefix(unknown.Error(), "json: ")
	}
	return in, &dedup.InvalidError{What: "call", Field: "in", Reason: reason, Err: err}
}

// strictly says whether a valid text has a member that T has no field for.
func strictly[T any](raw json.RawMessage) error {
	return guarded(func() error {
		strict := json.NewDecoder(bytes.NewReader(raw))
		strict.DisallowUnknownFields()
		return strict.Decode(new(T))
	})
}

// encode makes the text of a result.
func encode(out any) (json.RawMessage, error) {
	text, err := safely(func() ([]byte, error) { return marshal(out) })
	if err == nil && !utf8.Valid(text) {
		err = errors.New("it is not valid UTF-8")
	}
	if err != nil {
		return nil, fmt.Errorf("dedup: the result cannot be encoded: %w", err)
	}
	return text, nil
}

// marshal is json.Marshal that leaves out nothing silently, as package dedup does it, and
// leaves <, > and & as they are: models read results.
func marshal(value any) ([]byte, error) { return canon.Encode(value, false) }
