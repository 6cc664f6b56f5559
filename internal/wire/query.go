package wire

import (
	"crypto/sha256"
	"encoding/hex"
)

// Query is one SQL text of the library's own and the name that it is
// prepared under. Equal texts have equal names, so that Dedupers that share a
// connection share its statements.
type Query struct{ Text, Name string }

// NewQuery names a text.
func NewQuery(text string) Query {
	sum := sha256.Sum256([]byte(text))
	return Query{Text: text, Name: "tool_dedup_" + hex.EncodeToString(sum[:8])}
}

// Distinct returns each query once.
func Distinct(queries []Query) []Query {
	var once []Query
	known := make(map[string]bool, len(queries))
	for _, q := range queries {
		if !known[q.Name] {
			known[q.Name] = true
			once = append(once, q)
		}
	}
	return once
}
