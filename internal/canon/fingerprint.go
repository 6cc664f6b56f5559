// Package canon converts a call's arguments to one canonical JSON text, its fingerprint, and
// digests that show later which arguments differ. It also encodes results. It handles Go values and
// JSON, and does not depend on databases.
package canon

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// fingerprintDomain separates this hash from every other, and contains its version. Records are
// compared over months, so a change of any fingerprint must change the domain too, and keep the old
// way for the old records.
const fingerprintDomain = "dedup/fingerprint/v1"

// Fingerprint identifies the arguments of a call by value: two calls have the same fingerprint
// exactly if their arguments are equal as JSON.
type Fingerprint [sha256.Size]byte

// String returns the fingerprint as 64 hex characters.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// FingerprintOf returns the SHA-256 of a version prefix and the canonical JSON text of args. A
// [json.RawMessage] is taken as JSON text, any other value goes through [json.Marshal] first; nil
// is null. The error is an *[Error].
func FingerprintOf(args any) (Fingerprint, error) {
	c, fp, err := fingerprint(args)
	if err != nil {
		return Fingerprint{}, err
	}
	c.free()
	return fp, nil
}

// canonicalStart is where the canonical text begins in what fingerprint hashes: after the domain
// and the length.
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
	text, err := encode(args, true)
	switch err := err.(type) {
	case nil:
		return text, nil
	case *hollowError:
		return nil, refuse("lose what they hold as JSON: %s", err)
	}
	if err == errNoUTF8 {
		return nil, refuse("have a string that is not valid UTF-8; encode binary data as []byte or base64")
	}
	return nil, &Error{Reason: "cannot be encoded as JSON; unwrap this error for the cause", Err: err}
}

// HashRoom is the size of the stack buffers for hash input. Longer input moves to the heap.
const HashRoom = 320

// AppendPart appends a part of the input of a hash after its length in 64 bits, so that two lists
// of parts never have the same input.
func AppendPart[T ~string | ~[]byte](b []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}

// The argument digests of a record let a later misuse of its key be explained: WHICH top-level
// arguments differ, not how. The format is
//
//	version (1 byte)
//	for each member, in the order of their names: length of the name (uvarint), name, tag (4 bytes)
//	end (1 byte): whether members were left out
//
// A tag is the beginning of a SHA-256 over the record's identity, the name and the canonical value.
// The identity makes tags of two records incomparable, so a table of them does not show which
// customers share a value. Names longer than argNameMax are left out, and so are members after the
// first argDigestsMax: those of one record stay below 4.5 kB.
const (
	argDigestDomain   = "dedup/part/v1"
	argDigestsVersion = 1
	argDigestsMax     = 64
	argNameMax        = 64
	argTagLen         = 4

	// What ends the digests. None can begin a member, because the uvarint of a length up to
	// argNameMax is one byte below 0x80.
	argDigestsComplete = 0xff
	argDigestsLongName = 0xfe // a name was too long
	argDigestsCapped   = 0xfd // members after the last one are unknown
)

// Digest returns the fingerprint of args and the argument digests that [ChangedArgs] compares.
// digests is nil if args is not an object.
func Digest(scope, tool, key string, args any) (fp Fingerprint, digests []byte, err error) {
	c, fp, err := fingerprint(args)
	if err != nil {
		return Fingerprint{}, nil, err
	}
	digests = c.argDigests(scope, tool, key)
	c.free()
	return fp, digests, nil
}

// argDigests returns the digests of the object that c has read, or nil for any other value.
func (c *canonicalizer) argDigests(scope, tool, key string) []byte {
	if c.out[canonicalStart] != '{' {
		return nil
	}
	size := 2
	for i := range c.members[:min(len(c.members), argDigestsMax)] {
		size += 1 + len(c.name(&c.members[i])) + argTagLen
	}
	digests := append(make([]byte, 0, min(size, 2+argDigestsMax*(1+argNameMax+argTagLen))), argDigestsVersion)

	var room [HashRoom]byte
	b := AppendPart(AppendPart(AppendPart(append(room[:0], argDigestDomain...), scope), tool), key)
	identity := len(b)

	end, count := byte(argDigestsComplete), 0
	start := int32(canonicalStart + len("{"))
	for i := range c.members {
		m := &c.members[i]
		name := c.name(m)
		value := c.out[start+m.value-m.start : start+m.end-m.start]
		start += m.end - m.start + int32(len(","))
		if len(name) > argNameMax {
			end = argDigestsLongName
			continue
		}
		if count == argDigestsMax {
			end = argDigestsCapped
			break
		}
		count++
		b = AppendPart(AppendPart(b[:identity], name), value)
		tag := sha256.Sum256(b)
		digests = binary.AppendUvarint(digests, uint64(len(name)))
		digests = append(digests, name...)
		digests = append(digests, tag[:argTagLen]...)
	}
	return append(digests, end)
}

// ChangedArgs returns the sorted names of the top-level arguments that were added, removed or
// changed between two calls of one identity with different fingerprints. complete is true if there
// can be no others. stored comes from the database, to which other programs may write: invalid
// digests, or digests of another version, give no names.
func ChangedArgs(stored, now []byte) (names []string, complete bool) {
	var was, is sketch
	if !was.decode(stored) || !is.decode(now) {
		return nil, false
	}
	for a, b := was.members, is.members; len(a)+len(b) > 0; {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].name < b[0].name:
			if is.covers(a[0].name) {
				names = append(names, a[0].name)
			}
			a = a[1:]
		case len(a) == 0 || b[0].name < a[0].name:
			if was.covers(b[0].name) {
				names = append(names, b[0].name)
			}
			b = b[1:]
		default:
			if a[0].tag != b[0].tag {
				names = append(names, a[0].name)
			}
			a, b = a[1:], b[1:]
		}
	}
	// No name at all, though the fingerprints differ: two tags agree by chance.
	return names, len(names) > 0 && was.end == argDigestsComplete && is.end == argDigestsComplete
}

// sketch is decoded argument digests.
type sketch struct {
	members []taggedName
	end     byte
}

type taggedName struct {
	name string
	tag  [argTagLen]byte
}

// decode accepts exactly what argDigests writes.
func (s *sketch) decode(digests []byte) bool {
	if len(digests) < 2 || digests[0] != argDigestsVersion {
		return false
	}
	s.end = digests[len(digests)-1]
	if s.end < argDigestsCapped {
		return false
	}
	for rest := digests[1 : len(digests)-1]; len(rest) > 0; {
		size := int(rest[0])
		if size > argNameMax || len(rest) < 1+size+argTagLen || len(s.members) == argDigestsMax {
			return false
		}
		m := taggedName{name: string(rest[1 : 1+size]), tag: [argTagLen]byte(rest[1+size:])}
		if !utf8.ValidString(m.name) || len(s.members) > 0 && m.name <= s.members[len(s.members)-1].name {
			return false
		}
		s.members = append(s.members, m)
		rest = rest[1+size+argTagLen:]
	}
	return s.end != argDigestsCapped || len(s.members) == argDigestsMax
}

// covers reports whether the sketch would contain this name if its object had it.
func (s *sketch) covers(name string) bool {
	return s.end != argDigestsCapped || name <= s.members[len(s.members)-1].name
}

// Error is the reason why arguments have no canonical form and no fingerprint.
type Error struct {
	// Reason describes the problem and the remedy. It gives byte positions and lengths, never a
	// value.
	Reason string
	// Err is the error of a method of the arguments, such as MarshalJSON; mostly nil.
	Err error
}

// Error implements error. It leaves Err out, which may quote a value.
func (e *Error) Error() string { return e.Reason }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func refuse(format string, args ...any) *Error { return &Error{Reason: fmt.Sprintf(format, args...)} }
