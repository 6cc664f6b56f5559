package dedup

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxNameLen is the most bytes that a scope, a tool or a key may have. Three of
// them at their limit still fit an entry of a Postgres B-tree (2,704 bytes on a
// page of 8 kB), so no name that passes here can fail there.
const maxNameLen = 255

// Sentinels of a call that lacks a part of its identity. Each comes wrapped in
// an *[InvalidCallError], so errors.Is and errors.As both match. Nothing has
// run and nothing was sent to the database.
var (
	// ErrScopeRequired is returned by every call that is given an empty scope.
	ErrScopeRequired = errors.New("dedup: a scope is required")

	// ErrToolRequired is returned by every call that is given an empty tool
	// name.
	ErrToolRequired = errors.New("dedup: a tool is required")

	// ErrKeyRequired is returned by every call that is given an empty key.
	ErrKeyRequired = errors.New("dedup: a key is required")
)

// InvalidCallError says that a call cannot be taken as it is: a name is
// malformed, the arguments are no JSON, a derived key lacks a part. Nothing has
// run and nothing was sent to the database; the same call fails in the same way
// each time.
//
// It is returned by every function that takes a scope, a tool, a key or
// arguments, by [FingerprintOf] and by the KeyFrom functions.
type InvalidCallError struct {
	// Field names the part at fault: "Scope", "Tool", "Key", "Args", "Session",
	// "Turn", "ToolCallID", "Parts", "Retention" and so on.
	Field string

	// Reason says what is wrong and what to do about it, as a sentence that Field
	// begins: "is empty; give …". It gives byte
	// positions and lengths, never the value: names and arguments hold personal
	// data, and errors end up in logs.
	Reason string

	// Err is the cause, if there is one: a sentinel of this package, or the
	// error of a MarshalJSON method. Error does not print it, because a foreign
	// error may quote the value.
	Err error
}

func (e *InvalidCallError) Error() string {
	return "dedup: invalid call: " + e.Field + " " + e.Reason
}

// Unwrap returns the cause, or nil.
func (e *InvalidCallError) Unwrap() error { return e.Err }

// validateName checks a scope, a tool or a key. It accepts 1 to maxNameLen bytes of valid UTF-8 without control
// characters, which is less than what Postgres can store and compare as text
// COLLATE "C". Bytes are the identity: nothing is trimmed, folded or
// normalised, so "é" as one code point (NFC) and as two (NFD) are two names.
// Normalising would merge keys that their makers hold to be different, and
// would change with each version of Unicode.
func validateName(field, name string) error {
	if name == "" {
		return nameRequired(field)
	}
	if len(name) > maxNameLen {
		return invalid(field, "is %d bytes long, and %d is the most; hash it (KeyFromIntent does)", len(name), maxNameLen)
	}
	for i := 0; i < len(name); {
		r, size := rune(name[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(name[i:])
		}
		if r == utf8.RuneError && size == 1 {
			return invalid(field, "is not valid UTF-8 at byte %d; encode binary names as hex or base64url", i)
		}
		if unicode.IsControl(r) {
			return invalid(field, "has a control character at byte %d; remove it", i)
		}
		i += size
	}
	return nil
}

func nameRequired(field string) error {
	required, fix := ErrKeyRequired, "make one where the intent is formed (NewKey, KeyFromToolCall) and send it with every retry"
	switch field {
	case "Scope":
		required, fix = ErrScopeRequired, "give the tenant, client or account that the call belongs to"
	case "Tool":
		required, fix = ErrToolRequired, "give the tool a stable name of its own"
	}
	return &InvalidCallError{Field: field, Reason: "is empty; " + fix, Err: required}
}

func invalid(field, format string, args ...any) *InvalidCallError {
	return &InvalidCallError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
