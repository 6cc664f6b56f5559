package tool

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"

	"github.com/tooldedup/dedup"
)

// ScopeRule says who shares a key. Two principals never do.
type ScopeRule int

const (
	// PerCaller: a key means the same in all sessions of a principal, so that a
	// call is a repeat after a reconnect, a restart and on another device.
	PerCaller ScopeRule = iota
	// PerSession: a key means something in its session only. For keys that a
	// model makes up and may make up again elsewhere. A retry from a new session
	// is a new call.
	PerSession
)

// String returns the rule in lower case, with an underscore.
func (r ScopeRule) String() string {
	switch r {
	case PerCaller:
		return "per_caller"
	case PerSession:
		return "per_session"
	default:
		return fmt.Sprintf("scope_rule(%d)", int(r))
	}
}

// MarshalText implements encoding.TextMarshaler with the rule's name.
func (r ScopeRule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Scope returns the scope in which the record of a call stands, of a principal in a session. The
// error is an *[dedup.InvalidError].
func (r ScopeRule) Scope(scope, session string) (string, error) {
	if scope == "" {
		return "", &dedup.InvalidError{What: "call", Field: "Scope", Reason: "is empty; give the authenticated principal that the call belongs to"}
	}
	if r == PerCaller {
		return scope, nil
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
