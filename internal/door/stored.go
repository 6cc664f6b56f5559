package door

import (
	"bytes"
	"encoding/json"
)

// MiddlewareForm is the value of the member "io.github.tooldedup/result" in what the Middleware of
// package mcpdedup records. It tells these records from those of the same tool in a registry: read
// as the other kind they would be answers that nobody gave.
const MiddlewareForm = 1

// IsOfMiddleware reports whether a record was written by the Middleware of package mcpdedup.
func IsOfMiddleware(text json.RawMessage) bool {
	var s struct {
		Form int `json:"io.github.tooldedup/result"`
	}
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && json.Unmarshal(text, &s) == nil && s.Form == MiddlewareForm
}
