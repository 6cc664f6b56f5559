package canon

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// MaxSize is the most bytes that the JSON text of arguments may have: 16 MiB.
	MaxSize = 16 << 20

	// MaxDepth is how deep arrays and objects may nest, long before a stack is at risk.
	MaxDepth = 1000
)

// canonicalizer rewrites one JSON text (RFC 8259) so that two texts of the same value become the
// same bytes, and two texts of different values never do. It follows the canonical JSON of RFC 8785
// in spirit, except in numbers and in the order of names:
//
//   - No white space.
//   - Object members are sorted at every level by the bytes of their unescaped
//     UTF-8 names (RFC 8785 sorts by UTF-16 units). A name that occurs twice is
//     refused: parsers disagree on which of the two counts.
//   - Strings escape only the necessary characters, in one way: \" \\ \b \t \n \f \r, and
//     \u00xx in lower case for the other controls. All else is raw UTF-8.
//     Invalid UTF-8 and lone surrogates are refused: replacing them would merge
//     different strings. No Unicode normalisation, for the same reason.
//   - Numbers are written by mathematical value with every digit kept: a sign,
//     the digits without leading or trailing zeros, and the exponent of ten
//     when it is not zero. RFC 8785 goes through float64 instead, which merges
//     9007199254740993 and 9007199254740992: two accounts, two amounts, two
//     calls.
//
// Everything is read in one pass that appends to out. Objects whose members came unsorted are
// noted, and at the end one more pass over the output puts all of them in order, each byte moved
// once, so that hostile nesting costs no more than its size.
type canonicalizer struct {
	src   []byte
	pos   int
	depth int

	out     []byte   // the caller's prefix, then the canonical text
	names   []byte   // unescaped names of the members below
	members []member // members so far of the open objects; after the run the sorted members of the outermost object

	objects []object // closed objects whose members came unsorted, inner before outer
	moved   []member // their members, sorted

	// Room for small arguments, to spare their allocations.
	outRoom               [512]byte
	nameRoom              [128]byte
	memberRoom, movedRoom [10]member
	objectRoom            [2]object
}

// member is one member of an object. Offsets are 32 bits wide because hostile arguments can hold
// millions of members; MaxSize keeps them in range.
type member struct {
	name, nameEnd     int32 // its unescaped name in names
	start, value, end int32 // its text in out before the reordering, and where its value begins
	lo, hi            int32 // the unsorted objects within it: objects[lo:hi]
	at                int32 // its position in src, for errors
}

// object is an object whose members came unsorted.
type object struct {
	start, end int32 // its text in out, braces excluded
	from, to   int32 // its members: moved[from:to]
	lo         int32 // the unsorted objects within it begin at objects[lo]
}

// canonicalizers are kept for the next arguments: each has more than a kilobyte of room. What grew
// beyond that is left to the garbage collector.
var canonicalizers = sync.Pool{New: func() any { return new(canonicalizer) }}

func newCanonicalizer() *canonicalizer {
	c := canonicalizers.Get().(*canonicalizer)
	c.src, c.pos, c.depth = nil, 0, 0
	c.out, c.names, c.members = c.outRoom[:0], c.nameRoom[:0], c.memberRoom[:0]
	c.objects, c.moved = c.objectRoom[:0], c.movedRoom[:0]
	return c
}

// free gives c back. Nothing got from it may be used after.
func (c *canonicalizer) free() {
	c.src, c.out, c.names, c.members, c.objects, c.moved = nil, nil, nil, nil, nil, nil
	canonicalizers.Put(c)
}

// run appends the canonical form of src to c.out.
func (c *canonicalizer) run(src []byte) error {
	if len(src) > MaxSize {
		return refuse("are %d bytes of JSON, and %d is the most; store the large part elsewhere and send its hash", len(src), MaxSize)
	}
	c.src = src
	base := len(c.out)
	c.space()
	if err := c.value(); err != nil {
		return err
	}
	c.space()
	if c.pos < len(c.src) {
		return c.fail("more text after the JSON value")
	}
	if len(c.objects) > 0 {
		c.reorder(base)
	}
	return nil
}

func (c *canonicalizer) value() error {
	if c.pos == len(c.src) {
		return c.fail("end of text where a JSON value should be")
	}
	switch c.src[c.pos] {
	case '{':
		return c.object()
	case '[':
		return c.array()
	case '"':
		var err error
		c.out, err = c.text(append(c.out, '"'), true)
		c.out = append(c.out, '"')
		return err
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return c.number()
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	}
	return c.fail("no JSON value begins like this")
}

func (c *canonicalizer) literal(word string) error {
	if !bytes.HasPrefix(c.src[c.pos:], []byte(word)) {
		return c.fail("no JSON value begins like this")
	}
	c.pos += len(word)
	c.out = append(c.out, word...)
	return nil
}

func (c *canonicalizer) array() error {
	if err := c.enter('['); err != nil {
		return err
	}
	for first := true; !c.take(']'); first = false {
		if !first {
			if !c.take(',') {
				return c.fail("no comma and no end of the array")
			}
			c.out = append(c.out, ',')
			c.space()
		}
		if err := c.value(); err != nil {
			return err
		}
		c.space()
	}
	c.leave(']')
	return nil
}

func (c *canonicalizer) object() error {
	names, members, objects := len(c.names), len(c.members), len(c.objects)
	if err := c.enter('{'); err != nil {
		return err
	}
	start, sorted := len(c.out), true
	for first := true; !c.take('}'); first = false {
		if !first {
			if !c.take(',') {
				return c.fail("no comma and no end of the object")
			}
			c.out = append(c.out, ',')
			c.space()
		}
		after, err := c.member(c.members[members:])
		if err != nil {
			return err
		}
		sorted = sorted && after
		c.space()
	}
	if !sorted {
		if err := c.sort(c.members[members:]); err != nil {
			return err
		}
		c.objects = append(c.objects, object{
			start: int32(start), end: int32(len(c.out)),
			from: int32(len(c.moved)), to: int32(len(c.moved) + len(c.members) - members),
			lo: int32(objects),
		})
		c.moved = append(c.moved, c.members[members:]...)
	}
	c.leave('}')
	if c.depth > 0 {
		c.names, c.members = c.names[:names], c.members[:members]
	}
	return nil
}

// member reads one member and says whether its name comes after the last one before it.
func (c *canonicalizer) member(before []member) (after bool, err error) {
	if c.pos == len(c.src) || c.src[c.pos] != '"' {
		return false, c.fail("no quoted member name")
	}
	m := member{name: int32(len(c.names)), start: int32(len(c.out)), lo: int32(len(c.objects)), at: int32(c.pos)}
	if c.names, err = c.text(c.names, false); err != nil {
		return false, err
	}
	m.nameEnd = int32(len(c.names))

	after = len(before) == 0 || bytes.Compare(c.name(&before[len(before)-1]), c.name(&m)) < 0

	c.pos = int(m.at) // the same string again, as it is written
	if c.out, err = c.text(append(c.out, '"'), true); err != nil {
		return false, err
	}
	c.space()
	if !c.take(':') {
		return false, c.fail("no colon after a member name")
	}
	c.space()
	c.out = append(c.out, '"', ':')
	m.value = int32(len(c.out))
	if err := c.value(); err != nil {
		return false, err
	}
	m.end, m.hi = int32(len(c.out)), int32(len(c.objects))
	c.members = append(c.members, m)
	return after, nil
}

func (c *canonicalizer) name(m *member) []byte { return c.names[m.name:m.nameEnd] }

func (c *canonicalizer) sort(members []member) error {
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(bytes.Compare(c.name(&a), c.name(&b)), cmp.Compare(a.at, b.at))
	})
	for i := 1; i < len(members); i++ {
		if bytes.Equal(c.name(&members[i-1]), c.name(&members[i])) {
			return c.failAt(int(members[i].at), "a member name that the object already has")
		}
	}
	return nil
}

// reorder puts the members of the unsorted objects in order. The ordered text has the same length,
// so it is written from its end to its beginning: in that direction the objects, noted inner before
// outer, are met when they are needed.
func (c *canonicalizer) reorder(base int) {
	n := len(c.out)
	c.out = slices.Grow(c.out, n-base)
	ordered := c.out[n : n+n-base]
	c.moveBack(ordered, len(ordered), base, n, 0, len(c.objects))
	copy(c.out[base:], ordered)
}

// moveBack writes out[start:end], in which objects[lo:hi] are unsorted, to where it ends at
// ordered[to], and returns where it begins.
func (c *canonicalizer) moveBack(ordered []byte, to, start, end, lo, hi int) int {
	for hi > lo {
		o := &c.objects[hi-1]
		to -= copy(ordered[to-(end-int(o.end)):], c.out[o.end:end])
		for i := o.to - 1; i >= o.from; i-- {
			m := &c.moved[i]
			to = c.moveBack(ordered, to, int(m.start), int(m.end), int(m.lo), int(m.hi))
			if i > o.from {
				to--
				ordered[to] = ','
			}
		}
		end, hi = int(o.start), int(o.lo)
	}
	return to - copy(ordered[to-(end-start):], c.out[start:end])
}

// enter and leave are the brackets of an array or object.
func (c *canonicalizer) enter(bracket byte) error {
	if c.depth == MaxDepth {
		return c.fail("arrays and objects nested more than 1000 deep")
	}
	c.depth++
	c.pos++
	c.space()
	c.out = append(c.out, bracket)
	return nil
}

func (c *canonicalizer) leave(bracket byte) {
	c.depth--
	c.out = append(c.out, bracket)
}

func (c *canonicalizer) space() {
	for c.pos < len(c.src) {
		switch c.src[c.pos] {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return
		}
	}
}

func (c *canonicalizer) take(b byte) bool {
	if c.pos < len(c.src) && c.src[c.pos] == b {
		c.pos++
		return true
	}
	return false
}

func (c *canonicalizer) fail(problem string) error { return c.failAt(c.pos, problem) }

func (c *canonicalizer) failAt(at int, problem string) error {
	return refuse("are not usable as JSON: %s, at byte %d; send one JSON text as RFC 8259 has it, each member name once", problem, at)
}

// text reads the string that begins at pos and appends its content to dst, either escaped in the
// canonical way or unescaped.
func (c *canonicalizer) text(dst []byte, escaped bool) ([]byte, error) {
	c.pos++
	for {
		start, high := c.pos, byte(0)
		for c.pos < len(c.src) {
			b := c.src[c.pos]
			if b < ' ' || b == '"' || b == '\\' {
				break
			}
			high |= b
			c.pos++
		}
		plain := c.src[start:c.pos]
		if high >= utf8.RuneSelf && !utf8.Valid(plain) {
			return dst, c.failAt(start+firstInvalid(plain), "invalid UTF-8 in a string")
		}
		dst = append(dst, plain...)
		if c.pos == len(c.src) {
			return dst, c.fail("end of text within a string")
		}
		switch c.src[c.pos] {
		case '"':
			c.pos++
			return dst, nil
		case '\\':
			r, err := c.escape()
			if err != nil {
				return dst, err
			}
			if escaped {
				dst = appendEscaped(dst, r)
			} else {
				dst = utf8.AppendRune(dst, r)
			}
		default:
			return dst, c.fail("a control character that is not escaped in a string")
		}
	}
}

// escape reads the escape that begins at pos; both halves of a surrogate pair are one.
func (c *canonicalizer) escape() (rune, error) {
	start := c.pos
	if c.pos+1 >= len(c.src) {
		return 0, c.fail("end of text within a string")
	}
	c.pos += 2
	switch b := c.src[start+1]; b {
	case '"', '\\', '/':
		return rune(b), nil
	case 'b':
		return '\b', nil
	case 't':
		return '\t', nil
	case 'n':
		return '\n', nil
	case 'f':
		return '\f', nil
	case 'r':
		return '\r', nil
	case 'u':
		r, ok := c.hex4()
		if !ok {
			break
		}
		if !utf16.IsSurrogate(r) {
			return r, nil
		}
		if c.take('\\') && c.take('u') {
			if low, ok := c.hex4(); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					return pair, nil
				}
			}
		}
		return 0, c.failAt(start, "a lone surrogate in a string")
	}
	return 0, c.failAt(start, "an unknown escape in a string")
}

func (c *canonicalizer) hex4() (r rune, ok bool) {
	if len(c.src)-c.pos < 4 {
		return 0, false
	}
	for _, b := range c.src[c.pos : c.pos+4] {
		switch {
		case '0' <= b && b <= '9':
			b -= '0'
		case 'a' <= b && b <= 'f':
			b -= 'a' - 10
		case 'A' <= b && b <= 'F':
			b -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(b)
	}
	c.pos += 4
	return r, true
}

func appendEscaped(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	switch {
	case r == '"', r == '\\':
		return append(dst, '\\', byte(r))
	case r >= ' ':
		return utf8.AppendRune(dst, r)
	}
	if short := "\x00\x00\x00\x00\x00\x00\x00\x00btn\x00fr"; int(r) < len(short) && short[r] != 0 {
		return append(dst, '\\', short[r])
	}
	return append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
}

func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}
