package dedup

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/table"
)

// A key names one intent. It is made once, where the intent is formed, and is
// the same on every retry, re-delivery and resumed run. So no time of the
// attempt, no attempt counter and no value drawn per try may go into it.
//
// The derived keys below are a prefix that names their kind and version, and
// the base64url of a SHA-256: 47 characters. What is hashed is a domain and
// then each part after its length in 64 bits, so no choice of bytes in one part
// can imitate another list of parts. Golden vectors in testdata freeze them: a
// key that changed with a release would run an old intent again.
const (
	toolCallPrefix, toolCallDomain         = "tc1_", "dedup/key/tool-call/v1"
	toolCallArgsPrefix, toolCallArgsDomain = "ta1_", "dedup/key/tool-call-args/v1"
	intentPrefix, intentDomain             = "in1_", "dedup/key/intent/v1"
	argsPrefix, argsDomain                 = "ar1_", "dedup/key/args/v1"
	keyHashDomain                          = "dedup/key-hash/v1"
)

// KeyFromIntent returns the key of an intent that has names of its own, such as
// ("invoice", "2024-117", "send"): the document, the step of a plan, the row of
// a batch. Parts count in their order, and no part can run into the next: ("a",
// "bc") and ("ab", "c") are two keys.
//
// Put in what makes two legitimate calls different, and nothing that differs
// between two tries of one.
//
// No parts, or an empty one, is an *[InvalidError]: an empty part is mostly
// a variable that nobody filled, and would merge intents.
func KeyFromIntent(parts ...string) (string, error) {
	if len(parts) == 0 {
		return "", invalid("Parts", "are missing; give what tells this intent from every other")
	}
	var room [canon.HashRoom]byte
	b := append(room[:0], intentDomain...)
	for i, part := range parts {
		if part == "" {
			return "", invalid("Parts", "have an empty one at index %d; fill it or leave it out", i)
		}
		b = canon.AppendPart(b, part)
	}
	return encodeKey(intentPrefix, b), nil
}

// KeyFromArgsMergingRepeats returns the key of a call by its arguments alone,
// within a session. It is the last resort for callers that have no id of any
// kind, and its risk is in its name: a second call with equal arguments is
// answered with the first one's result, even if it was meant. "Add another bag"
// said twice adds one bag. Of 536 recorded writes it swallowed 18, one of which
// would have succeeded; without the session 251. And a retry whose arguments a
// model worded differently is a new call, which runs.
//
// Arguments are compared as [FingerprintOf] does. An empty session, or
// arguments without a fingerprint, is an *[InvalidError].
func KeyFromArgsMergingRepeats(session string, args any) (string, error) {
	if err := validateSession(session); err != nil {
		return "", err
	}
	fp, err := FingerprintOf(args)
	if err != nil {
		return "", err
	}
	var room [canon.HashRoom]byte
	b := append(room[:0], argsDomain...)
	b = canon.AppendPart(b, session)
	b = canon.AppendPart(b, fp[:])
	return encodeKey(argsPrefix, b), nil
}

// NewKey returns a new key for an intent that has just been formed: the time and 128
// random bits, in the form of [TimedKey]. Save it with the plan, job or checkpoint BEFORE
// the first try, and send the same one with every retry; a NewKey per try protects from
// nothing.
//
// It begins with the time, so that new records fall into neighbouring pages of
// the index: with 20 million rows, random keys cost thirteen times the WAL. Two
// keys of one millisecond have no order.
func NewKey() string { return newKeyAt(time.Now()) }

func newKeyAt(now time.Time) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: it ends the program instead
	var room [64]byte
	return string(base64.RawURLEncoding.AppendEncode(appendTime(room[:0], now.UnixMilli()), random[:]))
}

// KeyHash returns what logs and errors show instead of a key: 16 hex characters
// of its hash. Keys made by callers may hold names or numbers of persons, and
// whoever knows a key and a scope can ask for its result; the hash still lets
// two lines be matched, and a known key be found.
func KeyHash(key string) string {
	var room [canon.HashRoom]byte
	sum := sha256.Sum256(canon.AppendPart(append(room[:0], keyHashDomain...), key))
	return hex.EncodeToString(sum[:8])
}

func validateSession(session string) error {
	if session == "" {
		return invalid("Session", "is empty; give the conversation, run or job that the call belongs to")
	}
	return nil
}

func encodeKey(prefix string, hashInput []byte) string {
	sum := sha256.Sum256(hashInput)
	var room [64]byte
	return string(base64.RawURLEncoding.AppendEncode(append(room[:0], prefix...), sum[:]))
}

// TimedKey puts a time in front of a derived key, so that new records fall into
// neighbouring pages of the index as those of [NewKey] do, and not all over it.
//
//	key, err := dedup.KeyFromToolCall(session.ID, turn, callID)
//	key, err = dedup.TimedKey(session.StartedAt, key)
//
// The time must be the same on every try: when the session, plan or job began, as
// saved with it, and never the time of the try, with which every retry would run
// again. It counts in milliseconds. A key with it and the same key without are
// two.
//
// It is worth it where a table grows large: see docs/performance.md. The time
// takes 14 bytes of the 255 that a key may have. An at before 1970 or after the
// year 3084, the zero time above all, an empty key and one that is too long are
// an *[InvalidError].
func TimedKey(at time.Time, key string) (string, error) {
	ms := at.UnixMilli()
	switch {
	case at.IsZero():
		return "", invalid("At", "is the zero time; give the time at which the session, plan or job began, as saved with it")
	case ms < 0 || ms > maxTimedKey:
		return "", invalid("At", "is %s; it must be between 1970 and 3084", at.UTC().Format(time.RFC3339))
	}
	if err := validateName("Key", key); err != nil {
		return "", err
	}
	timed := string(appendTime(nil, ms)) + key
	return timed, validateName("Key", timed)
}

// appendTime writes what stands in front of a timed key: the time in milliseconds, as
// nine digits that sort as it does.
func appendTime(b []byte, ms int64) []byte {
	const digits = "0123456789abcdefghijklmnopqrstuv" // RFC 4648, section 7, in lower case
	b = append(b, timedPrefix...)
	for i := 8; i >= 0; i-- {
		b = append(b, digits[ms>>(5*i)&31])
	}
	return append(b, '_')
}

const (
	timedPrefix = "ts1_"
	// Nine digits of five bits.
	maxTimedKey = 1<<45 - 1
)

func checkIdentity(scope, tool, key string) (table.Identity, error) {
	id := table.Identity{Scope: scope, Tool: tool, Key: key}
	if err := validateName("Scope", scope); err != nil {
		return id, err
	}
	if err := validateName("Tool", tool); err != nil {
		return id, err
	}
	return id, validateName("Key", key)
}

// validateName checks a scope, a tool or a key.
func validateName(field, name string) error {
	if problem := table.NameProblem(field, name); problem != "" {
		return invalid(field, "%s", problem)
	}
	return nil
}
