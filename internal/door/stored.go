package door

import (
	"bytes"
	"encoding/json"
)

// MiddlewareForm is the value of the member "io.github.tooldedup/result" in records of mcpdedup's
// Middleware. It distinguishes them from records of the same tool in a registry. Reading one as the
// other would return a wrong answer.
const MiddlewareForm = 1

// IsOfMiddleware reports whether mcpdedup's Middleware wrote a record.
func IsOfMiddleware(text json.RawMessage) bool {
	var s struct {
		Form int `json:"io.github.tooldedup/result"`
	}
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && json.Unmarshal(text, &s) == nil && s.Form == MiddlewareForm
}
