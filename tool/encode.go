package tool

import (
	"bytes"
	"encoding/json"

	"github.com/tooldedup/dedup"
)

// encode returns the JSON text of a result, with <, > and & as they are. A
// [json.RawMessage] is one already.
func encode(out any) (json.RawMessage, error) {
	if raw, ok := out.(json.RawMessage); ok && raw != nil {
		if !json.Valid(raw) {
			return nil, &dedup.InvalidError{What: "result", Reason: "is not valid JSON"}
		}
		return raw, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil {
		return nil, &dedup.InvalidError{What: "result", Reason: "cannot be encoded", Err: err}
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
