package dedup

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/table"
)

// Fingerprint identifies the arguments of a call by value: two calls have the same fingerprint
// exactly if their arguments are equal as JSON. Its String method returns 64 hex characters.
type Fingerprint = canon.Fingerprint

// MaxArgsSize is the maximum size of the JSON text of a call's arguments: 16 MiB. Store larger data
// elsewhere and pass its hash. Arrays and objects may nest 1,000 levels deep.
const MaxArgsSize = canon.MaxSize

// FingerprintOf returns the SHA-256 of a version prefix and the canonical JSON text of args. White
// space, the order of members, and the spelling of numbers and escapes do not count. Every digit of
// a number does. nil is null.
//
// A [json.RawMessage] is JSON text. Any other value is compared as [json.Marshal] writes it. A
// plain []byte is refused, because Marshal makes it a base64 string, in which white space counts:
// convert JSON text to json.RawMessage, and other bytes to string.
//
//   - Fields that Marshal leaves out are not compared: unexported fields, fields tagged
//     `json:"-"`, two fields with one name, and fields that the type's MarshalJSON or MarshalText
//     ignores. A struct that embeds a type with such a method, such as time.Time, has that method
//     too.
//   - A time is compared as written, zone included. One instant in two zones is two different
//     arguments: give times in UTC.
//   - Marshal calls a method with a pointer receiver only through a pointer, or on an element of
//     a slice: use a *[math/big.Int], not a big.Int.
//
// Since Go 1.27 encoding/json writes these types differently. Their fingerprints differ between
// programs that Go 1.26 and Go 1.27 built, and a retry after the upgrade is refused with
// [ErrKeyReused]. Encode them to a json.RawMessage yourself:
//
//   - a type with a MarshalJSONTo method
//   - a type with an AppendText method and without MarshalJSON, unless its MarshalText writes the
//     same text
//   - a struct with the tag option embed or format
//   - a struct with a quote or a backslash in the name of a tag
//
// Arguments without a fingerprint are an *[InvalidError] with Field "Args":
//
//   - a value that encoding/json cannot encode, such as a cycle
//   - a struct that encoding/json always writes as {}
//   - a string that is not valid UTF-8, in a Go value too: Marshal would replace the invalid
//     bytes, and two calls would become one
//   - a text larger than [MaxArgsSize], nested deeper than 1,000 levels, with two members of one
//     name, or with an exponent beyond ±1,000,000,000
func FingerprintOf(args any) (Fingerprint, error) {
	fp, err := canon.FingerprintOf(args)
	return fp, invalidArgs(err)
}

// invalidArgs converts an error of the arguments for the caller.
func invalidArgs(err error) error {
	if refused, ok := err.(*canon.Error); ok {
		return &InvalidError{What: "call", Field: "Args", Reason: refused.Reason, Err: refused.Err}
	}
	return err
}

// A key names one intent. Make it once, when the intent is formed, and send the same key with every
// retry, re-delivery and resumed run. It must not contain the time of the attempt, an attempt
// counter, or a value that is drawn anew for each attempt.
//
// A derived key is a prefix that names its kind and version, and the base64url of a SHA-256: 47
// characters. The hash covers a domain, and each part after its length in 64 bits, so that two
// lists of parts never have the same input. Golden vectors in testdata freeze the keys: if a
// release changed a key, an old intent would run again.
const (
	toolCallPrefix, toolCallDomain         = "tc1_", "dedup/key/tool-call/v1"
	toolCallArgsPrefix, toolCallArgsDomain = "ta1_", "dedup/key/tool-call-args/v1"
	intentPrefix, intentDomain             = "in1_", "dedup/key/intent/v1"
	argsPrefix, argsDomain                 = "ar1_", "dedup/key/args/v1"
	keyHashDomain                          = "dedup/key-hash/v1"
)

// KeyFromIntent returns the key of an intent with a natural name, such as ("invoice", "2024-117",
// "send"): the document, the step of a plan, the row of a batch. The order of parts counts, and
// parts do not run into each other: ("a", "bc") and ("ab", "c") are two keys.
//
// Include whatever distinguishes two legitimate calls. Exclude whatever differs between two
// attempts of one call.
//
// No parts, or an empty part, is an *[InvalidError]. An empty part is mostly an unset variable, and
// would merge intents.
func KeyFromIntent(parts ...string) (string, error) {
	if len(parts) == 0 {
		return "", missing("Parts", "are missing; give what tells this intent from every other")
	}
	var room [canon.HashRoom]byte
	b := append(room[:0], intentDomain...)
	for i, part := range parts {
		if part == "" {
			return "", missing("Parts", "have an empty one at index %d; fill it or leave it out", i)
		}
		b = canon.AppendPart(b, part)
	}
	return encodeKey(intentPrefix, b), nil
}

// KeyFromToolCall returns the key of a tool call by a model. session is the conversation or run.
// turn counts the model's messages in the session, from 1. toolCallID is the id that the provider
// gave the call. The saved transcript contains all three, so a re-delivered or resumed turn gives
// the same key.
//
// The turn is necessary, because (session, toolCallID) alone is not unique. Ids are unique within
// one message of the model only: some providers start again with every turn. In 200 recorded
// sessions 1,164 calls carried 134 distinct ids, and 49 sessions used one twice. Keyed by session
// and id, 5 of 536 recorded writes were swallowed, and 4 of them would have succeeded. Session,
// turn and id together were unique on all 2,833 recorded calls and swallowed none. The turn counts
// through the whole session, also after its history was compacted.
//
// The risks: two calls of one message with one id are one call, and the second is refused with
// [ErrKeyReused] if its arguments differ. An id that is the position of the call in its message
// names another call after part of the message is renumbered. A model that plans again gives the
// same intent a new id, which no derived key can detect. The safest key is a [NewKey] that is made
// with the plan and saved with it.
//
// An empty session, a negative turn, and a toolCallID that names no call ([UsableToolCallID]) are
// an *[InvalidError].
func KeyFromToolCall(session string, turn int, toolCallID string) (string, error) {
	if err := validateTurn(session, turn); err != nil {
		return "", err
	}
	if !UsableToolCallID(toolCallID, "") {
		return "", missing("ToolCallID", "is empty, \"null\" or \"None\", as some providers leave it; make the key of the call's arguments: KeyFromToolCallArgs")
	}
	var room [canon.HashRoom]byte
	b := append(room[:0], toolCallDomain...)
	b = canon.AppendPart(b, session)
	b = canon.AppendPart(b, strconv.Itoa(turn))
	b = canon.AppendPart(b, toolCallID)
	return encodeKey(toolCallPrefix, b), nil
}

// KeyFromToolCallArgs returns the key of a tool call without a usable id: the id is not usable
// ([UsableToolCallID]), or another call of the message with other arguments has it too. session and
// turn are as in [KeyFromToolCall]. tool is the tool's name. args are the call's arguments,
// compared as in [FingerprintOf]: give times in UTC. repeat counts earlier calls of the same
// message with the same tool and arguments and without a usable id. It is nearly always 0. Calls
// with the same usable id, tool and arguments are one call, not repeats.
//
// The position of the call in its message does not count. It changes if part of the message is
// delivered again, or if calls are delivered as they arrive.
//
// The risks: arguments that differ between two deliveries of one call, such as a time that is added
// on the way, make two calls, and both run. If the second of two equal calls of a message is
// delivered again alone, it is taken for the first.
//
// An empty session or tool, a negative turn or repeat, and arguments without a fingerprint are an
// *[InvalidError].
func KeyFromToolCallArgs(session string, turn int, tool string, args any, repeat int) (string, error) {
	if err := validateTurn(session, turn); err != nil {
		return "", err
	}
	if err := validateName("Tool", tool); err != nil {
		return "", err
	}
	if repeat < 0 {
		return "", invalid("Repeat", "is negative; count the equal calls of the message before this one from 0")
	}
	fp, err := FingerprintOf(args)
	if err != nil {
		return "", err
	}
	var room [canon.HashRoom]byte
	b := append(room[:0], toolCallArgsDomain...)
	b = canon.AppendPart(b, session)
	b = canon.AppendPart(b, strconv.Itoa(turn))
	b = canon.AppendPart(b, tool)
	b = canon.AppendPart(b, fp[:])
	b = canon.AppendPart(b, strconv.Itoa(repeat))
	return encodeKey(toolCallArgsPrefix, b), nil
}

// UsableToolCallID reports whether the provider's id of a tool call can name the call. An empty id,
// "null", "None" and the name of the tool cannot: the first three stand for a missing id, and every
// call of the tool shares the last. The caller must check that no other call of the message has the
// id.
func UsableToolCallID(id, tool string) bool {
	return id != "" && id != "null" && id != "None" && id != tool
}

// KeyFromArgsMergingRepeats returns the key of a call by its arguments alone, within a session. It
// is the last resort for callers that have no ids, and its risk is in its name: an intended second
// call with equal arguments gets the first call's result. "Add another bag" said twice adds one
// bag. Of 536 recorded writes it swallowed 18, one of which would have succeeded; without the
// session 251. If a model words the arguments of a retry differently, the retry is a new call and
// runs.
//
// Arguments are compared as in [FingerprintOf]. An empty session, or arguments without a
// fingerprint, is an *[InvalidError].
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

// NewKey returns a new key for an intent that has just been formed: the time and 128 random bits,
// in the form of [TimedKey]. Save it with the plan, job or checkpoint BEFORE the first attempt, and
// send it with every retry. A NewKey for each attempt protects from nothing.
//
// The key begins with the time, so that new records go to neighbouring pages of the index: with 20
// million rows, random keys cost eleven times the WAL. Keys of one millisecond are not ordered.
func NewKey() string { return newKeyAt(time.Now()) }

func newKeyAt(now time.Time) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: it ends the program instead
	var room [64]byte
	return string(base64.RawURLEncoding.AppendEncode(appendTime(room[:0], now.UnixMilli()), random[:]))
}

// TimedKey puts a time in front of a derived key, so that new records go to neighbouring pages of
// the index, as those of [NewKey] do.
//
//	key, err := dedup.KeyFromToolCall(session.ID, turn, callID)
//	key, err = dedup.TimedKey(session.StartedAt, key)
//
// The time must be the same for every attempt: the saved start of the session, plan or job. With
// the time of the attempt every retry would run again. The resolution is 1 ms. A key with a time
// and the same key without it are two keys.
//
// It is worth it if a table grows large: see docs/performance.md. The time takes 14 bytes of the
// 255 that a key may have. An at before 1970, such as the zero time, or after the year 3084, an
// empty key and a key that is too long are an *[InvalidError].
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

// appendTime appends the prefix of a timed key: the time in milliseconds, as nine digits that sort
// in the order of time.
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

// KeyHash returns the first 16 hex characters of a key's hash, which logs and errors show in place
// of the key. A key may contain personal data, and whoever knows scope, tool and key can ask for
// the result. With the hash, lines can still be matched, and a known key can be found.
func KeyHash(key string) string {
	var room [canon.HashRoom]byte
	sum := sha256.Sum256(canon.AppendPart(append(room[:0], keyHashDomain...), key))
	return hex.EncodeToString(sum[:8])
}

func validateTurn(session string, turn int) error {
	if err := validateSession(session); err != nil {
		return err
	}
	if turn < 0 {
		return invalid("Turn", "is negative; count the model's messages in the session from 0")
	}
	return nil
}

func validateSession(session string) error {
	if session == "" {
		return missing("Session", "is empty; give the conversation, run or job that the call belongs to")
	}
	return nil
}

func encodeKey(prefix string, hashInput []byte) string {
	sum := sha256.Sum256(hashInput)
	var room [64]byte
	return string(base64.RawURLEncoding.AppendEncode(append(room[:0], prefix...), sum[:]))
}

// validateName checks a scope, a tool or a key.
func validateName(field, name string) error {
	if problem := table.NameProblem(field, name); problem != "" {
		err := invalid(field, "%s", problem)
		err.Missing = name == ""
		return err
	}
	return nil
}
