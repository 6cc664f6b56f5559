package dedup

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"
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
// An *[InvalidCallError] with Field "Args" says why arguments have no
// fingerprint: they cannot be encoded, are larger than [MaxArgsSize], nest
// deeper than [MaxArgsDepth], name a member twice, hold a string that is not
// valid UTF-8 (in a Go value too, where Marshal would silently replace the bad
// bytes and so merge different calls), or a number with an exponent beyond
// ±1,000,000,000.
func FingerprintOf(args any) (Fingerprint, error) {
	_, fp, err := fingerprint(args)
	return fp, err
}

// digest returns the fingerprint of args and the parts that [changedArgs]
// compares; parts is nil if args are no object.
func digest(scope, tool, key string, args any) (fp Fingerprint, parts []byte, err error) {
	c, fp, err := fingerprint(args)
	if err != nil {
		return Fingerprint{}, nil, err
	}
	return fp, c.parts(scope, tool, key), nil
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

// The parts of a record let a later misuse of its key be explained: WHICH
// top-level arguments differ, not how. The format is
//
//	version (1 byte)
//	for each member, in the order of their names: length of the name (uvarint), name, tag (4 bytes)
//	end (1 byte): whether members were left out
//
// A tag is the beginning of a SHA-256 over the record's identity, the name and
// the canonical value. The identity makes tags of two records incomparable, so
// a table of them does not tell which customers share a value. Names longer
// than partNameMax are left out, and so are members after the first partsMax:
// the parts of one record stay below 4.5 kB.
const (
	partDomain   = "dedup/part/v1"
	partsVersion = 1
	partsMax     = 64
	partNameMax  = 64
	partTagLen   = 4

	// What ends the parts. None can begin a member, because the uvarint of a
	// length up to partNameMax is one byte below 0x80.
	partsComplete = 0xff
	partsLongName = 0xfe // a name was too long
	partsCapped   = 0xfd // members after the last one are unknown
)

// parts sketches the object that c has read; nil if it was something else.
func (c *canonicalizer) parts(scope, tool, key string) []byte {
	if c.out[canonicalStart] != '{' {
		return nil
	}
	size := 2
	for i := range c.members[:min(len(c.members), partsMax)] {
		size += 1 + len(c.name(&c.members[i])) + partTagLen
	}
	parts := append(make([]byte, 0, min(size, 2+partsMax*(1+partNameMax+partTagLen))), partsVersion)

	var room [hashRoom]byte
	b := appendPart(appendPart(appendPart(append(room[:0], partDomain...), scope), tool), key)
	identity := len(b)

	end, count := byte(partsComplete), 0
	start := int32(canonicalStart + len("{"))
	for i := range c.members {
		m := &c.members[i]
		name := c.name(m)
		value := c.out[start+m.value-m.start : start+m.end-m.start]
		start += m.end - m.start + int32(len(","))
		if len(name) > partNameMax {
			end = partsLongName
			continue
		}
		if count == partsMax {
			end = partsCapped
			break
		}
		count++
		b = appendPart(appendPart(b[:identity], name), value)
		tag := sha256.Sum256(b)
		parts = binary.AppendUvarint(parts, uint64(len(name)))
		parts = append(parts, name...)
		parts = append(parts, tag[:partTagLen]...)
	}
	return append(parts, end)
}

// changedArgs names the top-level arguments that were added, removed or changed
// between two calls of one identity whose fingerprints differ, sorted. It is
// complete if there can be no others. stored comes from the database, where
// others may write: bytes that are no parts of this version give no names.
func changedArgs(stored, now []byte) (names []string, complete bool) {
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
	return names, len(names) > 0 && was.end == partsComplete && is.end == partsComplete
}

// sketch is decoded parts.
type sketch struct {
	members []taggedName
	end     byte
}

type taggedName struct {
	name string
	tag  [partTagLen]byte
}

// decode accepts exactly what parts writes.
func (s *sketch) decode(parts []byte) bool {
	if len(parts) < 2 || parts[0] != partsVersion {
		return false
	}
	s.end = parts[len(parts)-1]
	if s.end < partsCapped {
		return false
	}
	for rest := parts[1 : len(parts)-1]; len(rest) > 0; {
		size := int(rest[0])
		if size > partNameMax || len(rest) < 1+size+partTagLen || len(s.members) == partsMax {
			return false
		}
		m := taggedName{name: string(rest[1 : 1+size]), tag: [partTagLen]byte(rest[1+size:])}
		if !utf8.ValidString(m.name) || len(s.members) > 0 && m.name <= s.members[len(s.members)-1].name {
			return false
		}
		s.members = append(s.members, m)
		rest = rest[1+size+partTagLen:]
	}
	return s.end != partsCapped || len(s.members) == partsMax
}

// covers says whether the sketch would hold this name if its object had it.
func (s *sketch) covers(name string) bool {
	return s.end != partsCapped || name <= s.members[len(s.members)-1].name
}

// hasInvalidString says whether json.Marshal met a string in value that is not
// valid UTF-8.
func hasInvalidString(value any) bool {
	w := stringWalk{seen: make(map[visit]bool)}
	return w.invalid(reflect.ValueOf(value), false)
}

// stringWalk looks for invalid strings where json.Marshal does. Within a type
// that marshals itself it looks at everything, unexported fields too: such
// methods mostly encode the fields of their own value.
type stringWalk struct {
	seen map[visit]bool
}

type visit struct {
	pointer uintptr
	length  int
	kind    reflect.Type
	opaque  bool
}

var (
	rawMessageType    = reflect.TypeFor[json.RawMessage]()
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

func (w *stringWalk) invalid(v reflect.Value, opaque bool) bool {
	if !v.IsValid() || v.Type() == rawMessageType {
		return false
	}
	t := v.Type()
	switch pointer := reflect.PointerTo(t); {
	case t.Kind() == reflect.Interface, t.Kind() == reflect.Pointer:
	case pointer.Implements(marshalerType):
		opaque = true
	case pointer.Implements(textMarshalerType):
		if invalidText(v) {
			return true
		}
		opaque = true
	}

	switch t.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String())
	case reflect.Interface:
		return w.invalid(v.Elem(), opaque)
	case reflect.Pointer:
		return !w.visited(v, 1, opaque) && w.invalid(v.Elem(), opaque)
	case reflect.Map:
		if w.visited(v, v.Len(), opaque) {
			return false
		}
		for entries := v.MapRange(); entries.Next(); {
			if w.invalid(entries.Key(), opaque) || w.invalid(entries.Value(), opaque) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 || t.Kind() == reflect.Slice && w.visited(v, v.Len(), opaque) {
			return false
		}
		for i := range v.Len() {
			if w.invalid(v.Index(i), opaque) {
				return true
			}
		}
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			encoded := (field.IsExported() || field.Anonymous) && field.Tag.Get("json") != "-"
			if (encoded || opaque) && w.invalid(v.Field(i), opaque) {
				return true
			}
		}
	}
	return false
}

// visited keeps the walk out of circles, which only fields that are not encoded
// can form.
func (w *stringWalk) visited(v reflect.Value, length int, opaque bool) bool {
	at := visit{pointer: v.Pointer(), length: length, kind: v.Type(), opaque: opaque}
	seen := w.seen[at]
	w.seen[at] = true
	return seen
}

// invalidText asks a value that marshals itself to text. A nil pointer never
// gets here, and an unexported field cannot be asked.
func invalidText(v reflect.Value) bool {
	if !v.CanInterface() {
		return false
	}
	m, ok := v.Interface().(encoding.TextMarshaler)
	if !ok && v.CanAddr() {
		m, ok = v.Addr().Interface().(encoding.TextMarshaler)
	}
	if !ok {
		return false
	}
	text, err := m.MarshalText()
	return err == nil && !utf8.Valid(text)
}
