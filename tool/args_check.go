package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tooldedup/dedup"
)

// check finds what encoding/json lets pass: arguments that are unknown, missing,
// null or given twice, and names in other capitals. It returns what of the
// arguments is compared.
func (p *argsPlan) check(tool string, args json.RawMessage) (compared json.RawMessage, err error) {
	if len(args) > dedup.MaxArgsSize {
		return nil, &ArgumentError{Tool: tool, Reason: fmt.Sprintf("are %d bytes, and %d is the most", len(args), dedup.MaxArgsSize)}
	}
	if err := checkJSON(args); err != nil {
		return nil, &ArgumentError{Tool: tool, Reason: err.Error()}
	}
	c := &argsChecker{tool: tool, src: args}
	if !p.drops() {
		c.mute = 1
	}
	c.space()
	if err := c.object(p.root); err != nil {
		return nil, err
	}
	if !p.drops() {
		return args, nil
	}
	return c.out, nil
}

// checkJSON tells what is wrong with a text without quoting it.
func checkJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("are not valid UTF-8")
	}
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("are no JSON: it goes wrong at byte %d", syntax.Offset)
	case err != nil:
		return errors.New("are no JSON")
	}
	return nil
}

// argsChecker walks once over a valid JSON text.
type argsChecker struct {
	tool string
	src  []byte
	pos  int
	path []string

	// out is the text without what is dropped; mute keeps it as it is.
	out  []byte
	mute int
}

func (c *argsChecker) value(s *shape) error {
	switch {
	case s == nil:
		c.emit(c.skip())
		return nil
	case s.object != nil:
		if c.src[c.pos] != '{' {
			c.emit(c.skip()) // null, or what encoding/json tells best
			return nil
		}
		return c.object(s.object)
	case c.src[c.pos] != s.open:
		c.emit(c.skip())
		return nil
	case s.open == '[':
		return c.list(s.elem)
	default:
		return c.dictionary(s.elem)
	}
}

// object reads the members of a struct.
func (c *argsChecker) object(o *object) error {
	if c.src[c.pos] != '{' {
		return c.fail("must be an object")
	}
	given := make(map[string]bool, len(o.members))
	kept := 0
	c.pos++
	c.emitByte('{')
	for c.more('}') {
		raw := c.skip()
		name := unquote(raw)
		m := o.members[name]
		switch {
		case m == nil:
			return c.failAt(name, "is unknown")
		case given[name]:
			return c.failAt(name, "is given twice")
		}
		given[name] = true
		c.skipColon()
		if !m.nullable && c.src[c.pos] == 'n' {
			return c.failAt(name, "is null")
		}
		if m.dropped {
			c.mute++
		} else if kept++; kept > 1 {
			c.emitByte(',')
		}
		c.emit(raw)
		c.emitByte(':')
		c.path = append(c.path, name)
		if err := c.value(m.value); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
		if m.dropped {
			c.mute--
		}
	}
	c.emitByte('}')
	for _, name := range o.required {
		if !given[name] {
			return c.failAt(name, "is missing")
		}
	}
	return nil
}

func (c *argsChecker) list(elem *shape) error {
	c.pos++
	c.emitByte('[')
	for i := 0; c.more(']'); i++ {
		if i > 0 {
			c.emitByte(',')
		}
		c.path = append(c.path, "["+strconv.Itoa(i)+"]")
		if err := c.value(elem); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
	}
	c.emitByte(']')
	return nil
}

func (c *argsChecker) dictionary(elem *shape) error {
	c.pos++
	c.emitByte('{')
	given := map[string]bool{}
	for i := 0; c.more('}'); i++ {
		if i > 0 {
			c.emitByte(',')
		}
		raw := c.skip()
		name := unquote(raw)
		if given[name] {
			return c.fail("names a member twice")
		}
		given[name] = true
		c.skipColon()
		c.emit(raw)
		c.emitByte(':')
		c.path = append(c.path, "[…]") // the name is a value
		if err := c.value(elem); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
	}
	c.emitByte('}')
	return nil
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
	field := strings.ReplaceAll(strings.Join(c.path, "."), ".[", "[")
	return &ArgumentError{Tool: c.tool, Field: field, Reason: reason}
}

func (c *argsChecker) failAt(name, reason string) error {
	c.path = append(c.path, name)
	return c.fail(reason)
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
