package canon

import (
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
// text of args. A [json.RawMessage] is taken as JSON text, any other value goes through
// [json.Marshal] first; nil is null. The error is an *[Error].
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
		return nil, refuse("are a []byte; convert JSON text to json.RawMessage, and other bytes to string")
	}
	text, err := argLosses.encode(args, MaxSize, true)
	switch err := err.(type) {
	case nil:
		return text, nil
	case *loss:
		return nil, refuse("lose a part of what they hold as JSON: %s", err)
	}
	switch err {
	case errTooLarge:
		return nil, refuse("are more than %d bytes of JSON, which is the most; store the large part elsewhere and send its hash", MaxSize)
	case errTooDeep:
		return nil, refuse("nest deeper than %d", MaxDepth)
	case errNoUTF8:
		return nil, refuse("have a string that is not valid UTF-8; encode binary data as []byte or base64")
	default:
		reason := fmt.Sprintf("cannot be encoded as JSON (%T); unwrap this error for the cause", err)
		return nil, &Error{Reason: reason, Err: err}
	}
}
