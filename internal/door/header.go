package door

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tooldedup/dedup"
)

// IsSafe reports whether a method changes nothing, by its definition (RFC 9110, section 9.2.1). An
// empty one is GET, and QUERY is GET with a body.
func IsSafe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "QUERY":
		return true
	}
	return false
}

// HeaderString writes a text as a String of Structured Fields (RFC 9651): in quotes, with
// backslashes before quotes and backslashes. ok is false if the text has characters other than
// printable ASCII, which such a string cannot contain.
func HeaderString(text string) (line string, ok bool) {
	if strings.ContainsFunc(text, notVisible) {
		return "", false
	}
	return `"` + escapes.Replace(text) + `"`, true
}

// notVisible reports whether a header's string cannot contain c. It can contain visible ASCII and
// the space.
func notVisible(c rune) bool { return c < ' ' || c > '~' }

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// ReadHeader reads a header line that holds one string. In quotes it is a String of Structured
// Fields, and parameters may follow it. Most clients send keys bare: that is taken too, and is the
// same string as in quotes. A bare one ends with the line.
//
// A proxy joins two lines with a comma. So a line with a comma outside the quotes is refused:
// two keys must not become one.
func ReadHeader(line string) (text, params, problem string) {
	line = strings.Trim(line, " \t")
	if i := strings.IndexFunc(line, notVisible); i >= 0 {
		return "", "", fmt.Sprintf("has a character at byte %d that is not visible ASCII", i)
	}
	if !strings.HasPrefix(line, `"`) {
		if i := strings.IndexAny(line, ` ,;"\`); i >= 0 {
			return "", "", fmt.Sprintf("is not in quotes, and has a space, comma, semicolon, quote or backslash at byte %d", i)
		}
		return line, "", ""
	}
	var b strings.Builder
	for i := 1; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			params = strings.TrimLeft(line[i+1:], " \t")
			if params != "" && params[0] != ';' || strings.Contains(params, ",") {
				return "", "", "is followed by something that is no parameter"
			}
			return b.String(), params, ""
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(line) && (line[i+1] == '"' || line[i+1] == '\\'):
			i++
			b.WriteByte(line[i])
		default:
			return "", "", fmt.Sprintf("has a backslash at byte %d that escapes nothing", i)
		}
	}
	return "", "", "lacks its closing quote"
}

// KeyConflict is the error of a client's request that has another key than its context: two layers
// made one each.
func KeyConflict(where, key string) error {
	return &dedup.InvalidError{What: "call", Field: "Key", Reason: "is " + dedup.KeyHash(key) + " in the context, and " + where + ` has another already; let one layer make the key, or hide the context's with runner.WithKey(ctx, "")`}
}
