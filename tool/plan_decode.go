package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// decode checks arguments, and lets encoding/json read them into in, a pointer. Unlike
// encoding/json it refuses an unknown, missing, null or repeated argument, a name in other
// capitals, and a list of another length than its array. It returns the text that encoding/json
// read, and the part of it that is compared.
func (p *plan) decode(tool string, args json.RawMessage, in any) (all, compared json.RawMessage, err error) {
	if fault := textFault(args); fault != "" {
		return nil, nil, &ArgumentError{Tool: tool, Reason: fault}
	}
	c, bad := p.check(args, false)
	if bad == nil {
		if err = json.Unmarshal(c.all, in); err == nil {
			return c.all, c.compared, nil
		}
		_, where := p.check(args, true)
		bad = cmp.Or(where, &ArgumentError{Reason: "cannot be read", Err: err})
	}
	if bad.Tool = tool; len(p.redacted) > 0 {
		bad.Err = nil
	}
	return nil, nil, bad
}

// textFault says why a text is not a JSON object, or returns "". It does not quote the text.
func textFault(text []byte) string {
	if len(text) > dedup.MaxArgsSize {
		return fmt.Sprintf("are %d bytes, and %d is the most", len(text), dedup.MaxArgsSize)
	}
	switch {
	case !utf8.Valid(text):
		return "are not valid UTF-8"
	case !json.Valid(text):
		// dedup's reader gives the position. The errors of encoding/json differ between releases of
		// Go.
		_, err := dedup.FingerprintOf(json.RawMessage(text))
		if invalid, ok := errors.AsType[*dedup.InvalidError](err); ok {
			return invalid.Reason
		}
		return "are not JSON"
	case typeAt(text) != "object":
		return "must be an object and are of type " + typeAt(text)
	}
	return ""
}

// typeAt returns the JSON type of the next value in a text.
func typeAt(text []byte) string {
	begin := bytes.TrimLeft(text, " \t\r\n,:")[0]
	return cmp.Or(map[byte]string{'"': "string", 't': "boolean", 'f': "boolean", '[': "array", '{': "object", 'n': "null"}[begin], "number")
}

// checker walks once over a valid JSON text. It writes the text for encoding/json and the text that
// is compared. Its methods return what does not fit, with the path from their own value.
type checker struct {
	src           []byte
	json          *json.Decoder
	reads         bool // read each value separately, to find the one that its type refuses
	all, compared []byte
}

func (p *plan) check(args []byte, reads bool) (*checker, *ArgumentError) {
	c := &checker{src: args, json: json.NewDecoder(bytes.NewReader(args)), reads: reads}
	c.all, c.compared = make([]byte, 0, len(args)), make([]byte, 0, len(args))
	return c, c.value(p.args)
}

// token reads a bracket or a name, and returns its text.
func (c *checker) token() []byte {
	from := c.json.InputOffset()
	_, _ = c.json.Token()
	return bytes.TrimLeft(c.src[from:c.json.InputOffset()], " \t\r\n,:")
}

// write writes a bracket, a name, a colon or a value, with a comma before it if one belongs there.
func (c *checker) write(text []byte) {
	c.all, c.compared = appendJSON(c.all, text), appendJSON(c.compared, text)
}

func appendJSON(to, text []byte) []byte {
	begins := len(to) == 0 || strings.IndexByte("{[:", to[len(to)-1]) >= 0
	if !begins && strings.IndexByte("}]:", text[0]) < 0 {
		to = append(to, ',')
	}
	return append(to, text...)
}

func (c *checker) value(s *shape) *ArgumentError {
	given := typeAt(c.src[c.json.InputOffset():])
	switch {
	case given == "null" && !s.nullable:
		return misfit("", "is null")
	case given != "null" && s.typ.Kind() == reflect.Pointer:
		return c.value(s.elem)
	case given != "null" && s.json != "" && s.json != given && !(s.json == "integer" && given == "number"):
		return misfit("", fmt.Sprintf("must be of type %s and is of type %s", s.json, given))
	case given == "array" && s.json == given:
		return c.list(s)
	case given == "object" && s.json == given:
		return c.object(s)
	}
	var raw json.RawMessage
	_ = c.json.Decode(&raw)
	if s.json == "integer" {
		raw = integerText(raw)
	}
	c.write(raw)
	if given == "null" {
		return nil
	}
	return c.scalar(s, raw)
}

func (c *checker) object(s *shape) *ArgumentError {
	c.write(c.token())
	given := make(map[string]bool, len(s.members))
	for c.json.More() {
		text, before, name := c.token(), len(c.compared), ""
		_ = json.Unmarshal(text, &name)
		m := s.member(name)
		switch {
		case m == nil:
			return misfit(door.Name(name), "is unknown")
		case given[name]:
			return misfit(m.name, "is given twice")
		}
		given[name] = true
		c.write(text)
		c.write([]byte(":"))
		from := len(c.compared)
		if bad := c.value(m.value); bad != nil {
			return bad.within(m.name)
		}
		switch {
		case m.dropped:
			c.compared = c.compared[:before]
		case m.respelled:
			c.compared = append(c.compared[:from], keyText(m.value.typ, c.compared[from:])...)
		}
	}
	c.write(c.token())
	for _, m := range s.members {
		if !given[m.name] && !m.optional {
			return misfit(m.name, "is missing")
		}
	}
	return nil
}

// member returns the member of a name, or nil if the name is unknown. The names of a map are
// values; a path does not show them.
func (s *shape) member(name string) *member {
	if s.typ.Kind() == reflect.Map {
		return &member{name: "[…]", value: s.elem}
	}
	for _, m := range s.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

func (c *checker) list(s *shape) *ArgumentError {
	c.write(c.token())
	n := 0
	for ; c.json.More(); n++ {
		if bad := c.value(s.elem); bad != nil {
			return bad.within("[" + strconv.Itoa(n) + "]")
		}
	}
	c.write(c.token())
	if s.typ.Kind() == reflect.Array && n != s.typ.Len() {
		return misfit("", fmt.Sprintf("must have %d elements and has %d", s.typ.Len(), n))
	}
	return nil
}

// scalar checks a value that is neither a list nor an object.
func (c *checker) scalar(s *shape, raw []byte) *ArgumentError {
	isTime := s.typ == reflect.TypeFor[time.Time]()
	if !isTime && !c.reads {
		return nil
	}
	err := json.Unmarshal(raw, reflect.New(s.typ).Interface())
	if err == nil && isTime && !rfc3339.Match(raw) {
		err = errors.New("tool: it has another form")
	}
	switch {
	case err == nil:
		return nil
	case s.json == "integer" || s.json == "number":
		return misfit("", "does not fit "+s.typ.String())
	default:
		return &ArgumentError{Reason: "cannot be read", Type: s.typ.String(), Err: err}
	}
}

func misfit(step, reason string) *ArgumentError { return &ArgumentError{Field: step, Reason: reason} }

func (e *ArgumentError) within(step string) *ArgumentError {
	if e.Field != "" && e.Field[0] != '[' {
		step += "."
	}
	e.Field = cut(step+e.Field, maxShownPath)
	return e
}

// integerText returns the plain text of a number that is an integer. In JSON Schema, and in most
// languages that write JSON, 1 and 1.0 are one value. A number that no 64-bit integer holds is
// returned unchanged. The work grows with the length of the text, never with the value.
func integerText(number []byte) []byte {
	mantissa, power, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	magnitude := bytes.TrimPrefix(mantissa, []byte("-"))
	whole, fraction, _ := bytes.Cut(magnitude, []byte("."))
	digits := bytes.TrimLeft(slices.Concat(whole, fraction), "0")
	if len(digits) == 0 {
		return []byte("0")
	}
	exponent, err := strconv.ParseInt(cmp.Or(string(power), "0"), 10, 32)
	significant := bytes.TrimRight(digits, "0")
	zeros := int(exponent) + len(digits) - len(significant) - len(fraction)
	if err != nil || zeros < 0 || len(significant)+zeros > maxDigits {
		return number
	}
	sign := mantissa[:len(mantissa)-len(magnitude)]
	return slices.Concat(sign, significant, bytes.Repeat([]byte("0"), zeros))
}

// maxDigits is the number of digits of the largest uint64.
const maxDigits = 20

// maxShownPath is how many bytes of a path an error shows. A path has names that a caller made up,
// and an error stays one line of a log.
const maxShownPath = 256

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
