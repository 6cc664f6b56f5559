package runner

import (
	"strings"

	"github.com/tooldedup/dedup"
)

// KeyHeader is the header that carries a call's key over HTTP.
const KeyHeader = "Idempotency-Key"

// headerString writes a key as a structured field's string (RFC 9651, section
// 3.3.3): quoted, with backslashes before quotes and backslashes. It can hold
// printable ASCII and nothing else.
func headerString(key string) (string, error) {
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", &dedup.InvalidError{What: "call", Field: "Key",
				Reason: "holds more than printable ASCII, which the header " + KeyHeader + " cannot carry; encode it once, where it is made: dedup.KeyFromIntent(key)"}
		}
	}
	return `"` + escapes.Replace(key) + `"`, nil
}

// headerKey reads what a header holds: a string as headerString writes it, or a
// bare key, which many clients send.
func headerKey(value string) string {
	inner, quoted := strings.CutPrefix(value, `"`)
	if !quoted || !strings.HasSuffix(inner, `"`) {
		return value
	}
	return unescapes.Replace(strings.TrimSuffix(inner, `"`))
}

var (
	escapes   = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	unescapes = strings.NewReplacer(`\\`, `\`, `\"`, `"`)
)
