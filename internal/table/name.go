package table

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxNameLen is the most bytes that a scope, a tool or a key may have. Three of
// them at their limit still fit an entry of a Postgres B-tree (2,704 bytes on a
// page of 8 kB), so no name that passes here can fail there.
const maxNameLen = 255

// NameProblem says why a name cannot be a Scope, Tool or Key; it is empty where it
// can. It accepts 1 to maxNameLen bytes of valid UTF-8 without control
// characters, which is less than what Postgres can store and compare as text
// COLLATE "C". Bytes are the identity: nothing is trimmed, folded or
// normalised, so "é" as one code point (NFC) and as two (NFD) are two names.
// Normalising would merge keys that their makers hold to be different, and
// would change with each version of Unicode.
func NameProblem(field, name string) string {
	if name == "" {
		return missingName(field)
	}
	if len(name) > maxNameLen {
		return fmt.Sprintf("is %d bytes long, and %d is the most; hash it (KeyFromIntent does)", len(name), maxNameLen)
	}
	for i := 0; i < len(name); {
		r, size := rune(name[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(name[i:])
		}
		if r == utf8.RuneError && size == 1 {
			return fmt.Sprintf("is not valid UTF-8 at byte %d; encode binary names as hex or base64url", i)
		}
		if unicode.IsControl(r) {
			return fmt.Sprintf("has a control character at byte %d; remove it", i)
		}
		i += size
	}
	return ""
}

func missingName(field string) string {
	switch field {
	case "Scope":
		return "is empty; give the tenant, client or account that the call belongs to"
	case "Tool":
		return "is empty; give the tool a stable name of its own"
	default:
		return "is empty; make one where the intent is formed (NewKey, KeyFromToolCall) and send it with every retry"
	}
}
