package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tooldedup/dedup"
)

// check finds what encoding/json lets pass: arguments that are unknown, missing,
// null or given twice, names in other capitals, lists that do not fit an array.
// It finds wrong types as well, because it can tell where in a list they are. It
// returns what of the arguments is compared, and the arguments as encoding/json
// reads them.
func (p *argsPlan) check(tool string, args json.RawMessage) (compared, readable json.RawMessage, err error) {
	if len(args) > dedup.MaxArgsSize {
		return nil, nil, &ArgumentError{Tool: tool, Reason: fmt.Sprintf("are %d bytes, and %d is the most", len(args), dedup.MaxArgsSize)}
	}
	if err := checkJSON(args); err != nil {
		return nil, nil, &ArgumentError{Tool: tool, Reason: err.Error()}
	}
	c := &argsChecker{tool: tool, src: args}
	if p.rewrites {
		c.out = make([]byte, 0, len(args))
	} else {
		c.mute = 1
	}
	c.space()
	if c.src[c.pos] != '{' {
		return nil, nil, c.fail("must be an object and are of type " + jsonNameOf(c.src[c.pos]))
	}
	if err := c.object(p.root); err != nil {
		return nil, nil, err
	}
	readable = c.readable()
	if p.rewrites {
		return c.out, readable, nil
	}
	return readable, readable, nil
}

// checkJSON says what is wrong with a text without quoting it.
func checkJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("are not valid UTF-8")
	}
	if json.Valid(text) {
		return nil
	}
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && strings.Contains(syntax.Error(), "max depth"):
		return errors.New("are nested too deep")
	case errors.As(err, &syntax):
		return fmt.Errorf("are no JSON: it goes wrong at byte %d", syntax.Offset)
	default:
		return errors.New("are no JSON")
	}
}

// argsChecker walks once over a valid JSON text.
type argsChecker struct {
	tool string
	src  []byte
	pos  int
	path []step

	// out is the text without what is dropped; mute keeps it as it is.
	out  []byte
	mute int
	// plain are the integers that encoding/json cannot read as they are spelled.
	plain []plainInteger
}

// step is one of the way to a value: a member's name, or an element's index
// where there is none.
type step struct {
	name  string
	index int
}

func (c *argsChecker) value(s *shape) error {
	first := c.src[c.pos]
	if first == 'n' {
		if !s.nullable {
			return c.fail("is null")
		}
		c.emit(c.skip())
		return nil
	}
	switch s.kind {
	case anything:
		raw := c.skip()
		// encoding/json takes this for null as well.
		if s.quoted && !s.nullable && first == '"' && unquote(raw) == "null" {
			return c.fail("is null")
		}
		c.emit(raw)
		return nil
	case aPointer:
		return c.value(s.elem)
	}
	if given, want := jsonNameOf(first), s.kind.jsonName(); given != want {
		return c.fail(fmt.Sprintf("must be of type %s and is of type %s", want, given))
	}
	switch s.kind {
	case anObject:
		return c.object(s.object)
	case aList, anArray:
		return c.list(s)
	case aMap:
		return c.dictionary(s)
	}
	raw := c.skip()
	if !s.fits(raw) {
		if raw = c.respell(s, raw); raw == nil {
			return c.fail("does not fit " + s.typ.String())
		}
	}
	c.emit(raw)
	return nil
}

// fits reports whether a number is one of the type's.
func (s *shape) fits(raw []byte) bool {
	var err error
	switch s.kind {
	case anInt:
		_, err = strconv.ParseInt(string(raw), 10, s.typ.Bits())
	case aUint:
		_, err = strconv.ParseUint(string(raw), 10, s.typ.Bits())
	case aFloat:
		_, err = strconv.ParseFloat(string(raw), s.typ.Bits())
	}
	return err == nil
}

// object reads the members of a struct.
func (c *argsChecker) object(o *object) error {
	var few [16]bool
	given := few[:]
	if len(o.ordered) > len(few) {
		given = make([]bool, len(o.ordered))
	}
	kept := 0
	c.pos++
	c.emitByte('{')
	for c.more('}') {
		raw := c.skip()
		m := o.find(raw)
		switch {
		case m == nil:
			return c.failAt(shown(unquote(raw)), "is unknown")
		case given[m.pos]:
			return c.failAt(m.name, "is given twice")
		}
		given[m.pos] = true
		if m.dropped {
			c.mute++
		} else if kept++; kept > 1 {
			c.emitByte(',')
		}
		c.emit(raw)
		c.emitByte(':')
		c.skipColon()
		c.path = append(c.path, step{name: m.name})
		before, start := len(c.out), c.pos
		if err := c.value(m.value); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
		if m.respelled && c.mute == 0 {
			c.out = append(c.out[:before], keyText(m.value.typ, c.src[start:c.pos])...)
		}
		if m.dropped {
			c.mute--
		}
	}
	c.emitByte('}')
	for _, m := range o.ordered {
		if m.required && !given[m.pos] {
			return c.failAt(m.name, "is missing")
		}
	}
	return nil
}

// find returns the member of a name in JSON, or nil.
func (o *object) find(raw []byte) *member {
	if bytes.IndexByte(raw, '\\') < 0 {
		return o.members[string(raw[1:len(raw)-1])]
	}
	return o.members[unquote(raw)]
}

func (c *argsChecker) list(s *shape) error {
	c.pos++
	c.emitByte('[')
	n := 0
	for ; c.more(']'); n++ {
		if n > 0 {
			c.emitByte(',')
		}
		c.path = append(c.path, step{index: n})
		if err := c.value(s.elem); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
	}
	c.emitByte(']')
	if s.kind == anArray && n != s.typ.Len() {
		return c.fail(fmt.Sprintf("must have %d elements and has %d", s.typ.Len(), n))
	}
	return nil
}

func (c *argsChecker) dictionary(s *shape) error {
	c.pos++
	c.emitByte('{')
	given := map[string]bool{}
	for c.more('}') {
		if len(given) > 0 {
			c.emitByte(',')
		}
		raw := c.skip()
		name := s.keyOf(unquote(raw))
		if given[name] {
			return c.fail("names a member twice")
		}
		given[name] = true
		c.emit(raw)
		c.emitByte(':')
		c.skipColon()
		c.path = append(c.path, step{name: "[…]"}) // the name is a value
		if err := c.value(s.elem); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
	}
	c.emitByte('}')
	return nil
}

// keyOf returns one text for all spellings of a number that is a map's key. A type
// that reads its own text may have others.
func (s *shape) keyOf(name string) string {
	key := s.typ.Key()
	if reflect.PointerTo(key).Implements(textUnmarshaler) {
		return name
	}
	switch key.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n, err := strconv.ParseInt(name, 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if n, err := strconv.ParseUint(name, 10, 64); err == nil {
			return strconv.FormatUint(n, 10)
		}
	}
	return name
}

// more goes to the next member or element, or behind the end.
func (c *argsChecker) more(end byte) bool {
	c.space()
	if c.src[c.pos] == ',' {
		c.pos++
		c.space()
	}
	if c.src[c.pos] == end {
		c.pos++
		return false
	}
	return true
}

// skip goes behind the value and returns its text.
func (c *argsChecker) skip() []byte {
	start := c.pos
	depth := 0
	for {
		switch c.src[c.pos] {
		case '"':
			c.skipString()
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			depth--
			c.pos++
		case ',', ':', ' ', '\t', '\r', '\n':
			c.pos++
		default: // a number, true, false or null
			for c.pos < len(c.src) && strings.IndexByte(",:]} \t\r\n", c.src[c.pos]) < 0 {
				c.pos++
			}
		}
		if depth == 0 {
			return c.src[start:c.pos]
		}
	}
}

func (c *argsChecker) skipString() {
	for c.pos++; c.src[c.pos] != '"'; c.pos++ {
		if c.src[c.pos] == '\\' {
			c.pos++
		}
	}
	c.pos++
}

func (c *argsChecker) skipColon() {
	c.space()
	c.pos++
	c.space()
}

func (c *argsChecker) space() {
	for c.pos < len(c.src) && strings.IndexByte(" \t\r\n", c.src[c.pos]) >= 0 {
		c.pos++
	}
}

func (c *argsChecker) emit(text []byte) {
	if c.mute == 0 {
		c.out = append(c.out, text...)
	}
}

func (c *argsChecker) emitByte(b byte) {
	if c.mute == 0 {
		c.out = append(c.out, b)
	}
}

func (c *argsChecker) fail(reason string) error {
	var field strings.Builder
	for i, s := range c.path {
		switch {
		case i > maxShownSteps:
			continue
		case i == maxShownSteps:
			field.WriteString("…")
		case s.name == "":
			fmt.Fprintf(&field, "[%d]", s.index)
		default:
			if i > 0 && s.name != "[…]" {
				field.WriteByte('.')
			}
			field.WriteString(s.name)
		}
	}
	return &ArgumentError{Tool: c.tool, Field: field.String(), Reason: reason}
}

func (c *argsChecker) failAt(name, reason string) error {
	c.path = append(c.path, step{name: name})
	return c.fail(reason)
}

// What an error shows of names that a caller made up, so that it stays one line
// of a log.
const (
	maxShownSteps = 32
	maxShownName  = 64
)

// shown makes a caller's name fit for an error.
func shown(name string) string {
	if len(name) > maxShownName {
		cut := maxShownName
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "…"
	}
	if quoted := strconv.Quote(name); len(quoted) != len(name)+2 || name == "" {
		return quoted
	}
	return name
}

// unquote returns the string that a JSON text of one is.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	_ = json.Unmarshal(raw, &s) // it was found to be valid
	return s
}
