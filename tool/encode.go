package tool

import (
	"encoding/json"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
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
	text, err := door.JSON(out)
	if err != nil {
		return nil, &dedup.InvalidError{What: "result", Reason: "cannot be encoded", Err: err}
	}
	return text, nil
}
