package tool

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"

	"github.com/tooldedup/dedup"
)

// scope returns the scope in which the record of a call stands.
func (t *definition) scope(inv Invocation) (string, error) {
	switch {
	case t.PerSession:
		return SessionScope(inv.Scope, inv.Session)
	case inv.Scope == "":
		return "", noScope
	default:
		return inv.Scope, nil
	}
}

var noScope = &dedup.InvalidError{What: "call", Field: "Scope", Reason: "is empty; give the authenticated principal that the call belongs to"}

// SessionScope returns the scope in which the records of tools stand that are PerSession, of a
// principal in a session. The error is a *[dedup.InvalidError].
func SessionScope(scope, session string) (string, error) {
	if scope == "" {
		return "", noScope
	}
	if session == "" {
		return "", &dedup.InvalidError{What: "call", Field: "Session", Reason: "is empty, and the tool's keys are those of a session"}
	}
	// The length in front keeps scope and session from running into each other.
	b := binary.AppendUvarint(nil, uint64(len(scope)))
	b = append(append(b, scope...), session...)
	sum := sha256.Sum256(b)
	return "session:" + base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]), nil
}
