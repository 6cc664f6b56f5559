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

// Fingerprint names the arguments of a call by their value: two calls have the
// same one exactly if their arguments are equal as JSON. Its String method returns 64
// hex characters.
type Fingerprint = canon.Fingerprint

// MaxArgsSize is the most bytes that the JSON text of a call's arguments
// may have: 16 MiB. More belongs in a store of its own, with its hash among
// the arguments. Arrays and objects may nest 1,000 deep in them.
const MaxArgsSize = canon.MaxSize

// FingerprintOf returns the SHA-256 of a version prefix and the canonical JSON text of args. White
// space, the order of members, the spelling of numbers and of escapes do not count. Every digit of
// a number does. nil is null.
//
// A [json.RawMessage] is taken as JSON text. Any other value is compared as [json.Marshal] writes
// it. A plain []byte is refused, because Marshal makes it a base64 string, in which white space
// counts: convert it to json.RawMessage, or to string if it is no JSON.
//
//   - Fields that Marshal leaves out are not compared: unexported fields, fields tagged `json:"-"`,
//     two fields with one name, and fields that the type's MarshalJSON or MarshalText ignores. A
//     struct that embeds a type with such a method, a time.Time for one, has that method too.
//   - A time is compared as it is written, zone included. One instant in two zones is two different
//     arguments: give times in UTC.
//   - Marshal calls a method with a pointer receiver only through a pointer, or on an element of a
//     slice: hold a *[math/big.Int], not a big.Int.
//
// Since Go 1.27 encoding/json writes these types in another way, so their fingerprints differ
// between programs that Go 1.26 and Go 1.27 built, and a retry after the upgrade is refused with
// [ErrKeyReused]. Encode them to a json.RawMessage yourself:
//
//   - a type with a MarshalJSONTo method
//   - a type with an AppendText method that has no MarshalJSON, unless its MarshalText writes the
//     same text
//   - a struct with the tag option embed or format
//   - a struct with a quote or a backslash in the name of a tag
//
// Arguments without a fingerprint are an *[InvalidError] with Field "Args":
//
//   - a value that encoding/json cannot encode, such as a cycle
//   - a struct that encoding/json always writes as {}
//   - a string that is not valid UTF-8, in a Go value too: Marshal would replace the bad bytes, and
//     two calls would be one
//   - a text larger than [MaxArgsSize], nested deeper than 1,000 levels, with two members of one
//     name, or with an exponent beyond ±1,000,000,000
func FingerprintOf(args any) (Fingerprint, error) {
	fp, err := canon.FingerprintOf(args)
	return fp, invalidArgs(err)
}

// invalidArgs is an error of the arguments as the caller gets it.
func invalidArgs(err error) error {
	if refused, ok := err.(*canon.Error); ok {
		return &InvalidError{What: "call", Field: "Args", Reason: refused.Reason, Err: refused.Err}
	}
	return err
}

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

// KeyFromToolCall returns the key of one tool call of a model: session is the
// conversation or run, turn counts the model's messages in it from 0 (or from
// 1; the same way each time), toolCallID is the id that the provider gave the
// call. All three are in the saved transcript, so a re-delivered or resumed
// turn gives the same key.
//
// Why the turn? Because (session, toolCallID) alone is wrong. Ids are unique
// within one message of the model and nowhere else: some providers start again
// with every turn. In 200 recorded sessions 1,164 calls carried 134 distinct ids
// and 49 sessions used one twice; keyed by session and id, 5 of 536 recorded
// writes were swallowed, and 4 of them would have succeeded. Session, turn and id
// together were unique on all 2,833 recorded calls and swallowed none. The turn
// counts through the whole session, also after its history was compacted.
//
// What it risks: two calls of one message that carry one id are one call here, and
// the second is refused with [ErrKeyReused] if its arguments differ. An id that is the call's position in
// its message names another call once part of the message is numbered anew. A
// model that plans again gives the same intent a new id, which no key can notice; a
// key of your own, made with the plan and saved with it ([NewKey]), always
// wins.
//
// An empty session, a negative turn, and a toolCallID that names no call whatever
// the tool ([UsableToolCallID]) are an *[InvalidError].
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

// KeyFromToolCallArgs returns the key of a tool call whose id is not usable: it is
// empty or the like ([UsableToolCallID]), or another call of the message with other arguments
// carries it too. session and turn are those of [KeyFromToolCall]; tool is the tool's name and
// args are the call's arguments, compared as [FingerprintOf] does, times with their zone: give
// them in UTC. repeat counts the calls of the same message before this one that have no usable id
// either, and the same tool and arguments. It is nearly always 0. Calls with the same usable id, tool and arguments are one call, not repeats.
//
// The position of the call in its message does not count, since it changes when a
// part of the message is delivered again, or when calls are delivered as they arrive.
//
// What it risks: arguments that differ between two deliveries of one call, such as a
// time that is put in on the way, make two calls of it, and both run. Of two equal
// calls in one message, the second alone is taken for the first when it is delivered
// again without it.
//
// An empty session or tool, a negative turn or repeat, and arguments without a
// fingerprint are an *[InvalidError].
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

// UsableToolCallID reports whether a tool call's id, as it came from the model's
// provider, can name the call: it is not empty, not "null" or "None", which is what
// becomes of an id that was never there, and not the name of the tool, which every
// call of the tool shares. That no other call of the message carries it is for whoever
// sees the message to check.
func UsableToolCallID(id, tool string) bool {
	return id != "" && id != "null" && id != "None" && id != tool
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

// KeyHash returns what logs and errors show instead of a key: 16 hex characters
// of its hash. Keys made by callers may hold names or numbers of persons, and
// whoever knows a key and a scope can ask for its result; the hash still lets
// two lines be matched, and a known key be found.
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
