package report

import (
	"encoding/json"
	"io"
)

// JSON writes the result as one JSON object on one line.
func JSON(out io.Writer, r *Result) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}
