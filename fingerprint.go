package dedup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// fingerprintDomain separates this hash from every other, and names its
// version: records are compared over months, so whatever changes one
// fingerprint must change the domain too, and keep the old way for the old
// records.
const fingerprintDomain = "dedup/fingerprint/v1"

// Fingerprint names the arguments of a call by their value: two calls have the
// same one exactly if their arguments are equal as JSON.
type Fingerprint [sha256.Size]byte

// String returns the fingerprint as 64 hex characters.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// FingerprintOf returns the SHA-256 of a version prefix and the canonical JSON
// text of args. White space, the order of members, the spelling of numbers and
// of escapes do not count; every digit of a number does. nil is null.
//
// A [json.RawMessage] is taken as JSON text. Any other value goes through
// [json.Marshal] first. A plain []byte is refused, because Marshal would make
// it a base64 string, in which the order of members and the white space count
// again: convert it to json.RawMessage, or to string if it is no JSON.
//
// Marshal leaves some values out without an error, and calls that differ in them
// would count as one. So arguments are refused that hold a struct of which
// nothing is encoded ([errors.New]'s, atomics), an unexported field that may hold
// data, two fields of one name, or a struct that has its MarshalJSON from an
// embedded field and other fields beside it. Fields tagged `json:"-"` do not
// count, nor do locks, functions and channels, and what a MarshalJSON or
// MarshalText leaves out is its author's choice. Methods with pointer receivers
// ([math/big.Int]) are used in arguments that are passed by value too, if they
// would lose something otherwise; in maps and interfaces they cannot be.
//
// An *[InvalidCallError] with Field "Args" says why arguments have no
// fingerprint: they lose a part, cannot be encoded, are larger than [MaxArgsSize], nest
// deeper than [MaxArgsDepth], name a member twice, hold a string that is not
// valid UTF-8 (in a Go value too, where Marshal would silently replace the bad
// bytes and so merge different calls), or a number with an exponent beyond
// ±1,000,000,000.
func FingerprintOf(args any) (Fingerprint, error) {
	c, fp, err := fingerprint(args)
	if err != nil {
		return Fingerprint{}, err
	}
	c.free()
	return fp, nil
}

// canonicalStart is where the canonical text begins in what fingerprint hashes:
// after the domain and the length.
const canonicalStart = len(fingerprintDomain) + 8

func fingerprint(args any) (*canonicalizer, Fingerprint, error) {
	src, err := jsonText(args)
	if err != nil {
		return nil, Fingerprint{}, err
	}
	c := newCanonicalizer()
	c.out = append(c.out, fingerprintDomain+"\x00\x00\x00\x00\x00\x00\x00\x00"...)
	if err := c.run(src); err != nil {
		return nil, Fingerprint{}, err
	}
	binary.BigEndian.PutUint64(c.out[len(fingerprintDomain):], uint64(len(c.out)-canonicalStart))
	return c, sha256.Sum256(c.out), nil
}

func jsonText(args any) ([]byte, error) {
	switch args := args.(type) {
	case nil:
		return []byte("null"), nil
	case json.RawMessage:
		if args == nil {
			return []byte("null"), nil
		}
		return args, nil
	case []byte:
		return nil, invalid("Args", "are a []byte; convert JSON text to json.RawMessage, and other bytes to string")
	}
	args, lost := argLosses.lossless(args)
	if lost != nil {
		return nil, &InvalidCallError{Field: "Args", Reason: "lose a part of what they hold as JSON: " + lost.Error()}
	}
	text, err := json.Marshal(args)
	if err != nil {
		reason := fmt.Sprintf("cannot be encoded as JSON (%T); unwrap this error for the cause", err)
		return nil, &InvalidCallError{Field: "Args", Reason: reason, Err: err}
	}
	// Marshal replaces bytes that are no UTF-8 by U+FFFD: as an escape with
	// encoding/json as it always was, raw with the one built on version 2. The
	// value may also hold that character by right, so it has the last word.
	replaced := bytes.Contains(text, []byte(`\ufffd`)) || bytes.Contains(text, []byte("\ufffd"))
	if replaced && hasInvalidString(args) {
		return nil, invalid("Args", "have a string that is not valid UTF-8; encode binary data as []byte or base64")
	}
	return text, nil
}
