package tool

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tooldedup/dedup"
)

// decode reads arguments into in. It refuses more than encoding/json does: arguments that are
// unknown, missing, null or given twice, names in other capitals, lists that do not fit an array.
// It returns the arguments as encoding/json reads them, all of them or only what is compared.
func (p *plan) decode(tool string, args json.RawMessage, in reflect.Value, all bool) (json.RawMessage, error) {
	if fault := textFault(args); fault != "" {
		return nil, &ArgumentError{Tool: tool, Reason: fault}
	}
	d := &decoder{src: args, json: json.NewDecoder(bytes.NewReader(args)), all: all}
	read, bad := d.value(p.args, in)
	if bad == nil && !d.changed {
		return args, nil
	}
	if bad == nil {
		return encode(read)
	}
	bad.Tool, bad.Field = tool, cut(bad.Field, maxShownPath)
	if len(p.redacted) > 0 {
		bad.Err = nil
	}
	return nil, bad
}

// textFault says what is wrong with a text that is to be a JSON object, and does not quote it.
func textFault(text []byte) string {
	if len(text) > dedup.MaxArgsSize {
		return fmt.Sprintf("are %d bytes, and %d is the most", len(text), dedup.MaxArgsSize)
	}
	var syntax *json.SyntaxError
	var valid json.RawMessage
	err := json.Unmarshal(text, &valid)
	switch {
	case !utf8.Valid(text):
		return "are not valid UTF-8"
	case errors.As(err, &syntax) && strings.Contains(syntax.Error(), "max depth"):
		return "are nested too deep"
	case errors.As(err, &syntax):
		return fmt.Sprintf("are no JSON: it goes wrong at byte %d", syntax.Offset)
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

// decoder walks once over a valid JSON text. Its methods return what they have read, and what does
// not fit, with the way there from where they began.
type decoder struct {
	src     []byte
	json    *json.Decoder
	all     bool // nothing is dropped
	changed bool // what is read is not as it was given
}

func misfit(step, reason string) *ArgumentError { return &ArgumentError{Field: step, Reason: reason} }

func (e *ArgumentError) within(step string) *ArgumentError {
	if e.Field != "" && e.Field[0] != '[' {
		step += "."
	}
	e.Field = step + cut(e.Field, maxShownPath)
	return e
}

func (d *decoder) value(s *shape, v reflect.Value) (any, *ArgumentError) {
	switch given := typeAt(d.src[d.json.InputOffset():]); {
	case given == "null" && !s.nullable:
		return nil, misfit("", "is null")
	case given == "null" && (s.json != "" || s.elem != nil):
		_, _ = d.json.Token()
		return nil, nil
	case s.json == "" && s.elem != nil:
		v.Set(reflect.New(s.typ.Elem()))
		return d.value(s.elem, v.Elem())
	case s.json != "" && s.json != given && !(s.json == "integer" && given == "number"):
		return nil, misfit("", fmt.Sprintf("must be of type %s and is of type %s", s.json, given))
	}
	if s.json == "object" || s.json == "array" {
		_, _ = d.json.Token() // the bracket
		read, bad := map[reflect.Kind]func(*shape, reflect.Value) (any, *ArgumentError){
			reflect.Struct: d.object, reflect.Map: d.dictionary, reflect.Slice: d.list, reflect.Array: d.list,
		}[v.Kind()](s, v)
		if bad == nil {
			_, _ = d.json.Token()
		}
		return read, bad
	}
	var raw json.RawMessage
	_ = d.json.Decode(&raw)
	if s.json == "integer" {
		plain := integerText(raw)
		d.changed, raw = d.changed || !bytes.Equal(plain, raw), plain
	}
	return raw, s.scalar(raw, v)
}

// scalar sets v to a value that is neither a list nor an object to its type.
func (s *shape) scalar(raw []byte, v reflect.Value) *ArgumentError {
	var text string
	if s.fits != nil {
		_ = json.Unmarshal(raw, &text)
	}
	if s.elem != nil && s.fits(text) {
		raw = []byte(text)
	}
	err := json.Unmarshal(raw, v.Addr().Interface())
	if err == nil && s.fits != nil && !s.fits(text) {
		err = errors.New("tool: it has another form")
	}
	switch {
	case err == nil:
		return nil
	case s.json == "integer" || s.json == "number":
		return misfit("", "does not fit "+s.typ.String())
	default:
		return &ArgumentError{Reason: "cannot be read as " + s.typ.String(), Err: err}
	}
}

func (d *decoder) object(s *shape, v reflect.Value) (any, *ArgumentError) {
	read := make(map[string]any, len(s.members))
	for d.json.More() {
		token, _ := d.json.Token()
		name := token.(string)
		i := slices.IndexFunc(s.members, func(m *member) bool { return m.name == name })
		if i < 0 {
			return nil, misfit(shown(name), "is unknown")
		}
		if _, twice := read[name]; twice {
			return nil, misfit(name, "is given twice")
		}
		value, bad := d.value(s.members[i].value, fieldOf(v, s.members[i].way))
		if bad != nil {
			return nil, bad.within(name)
		}
		read[name] = value
	}
	for _, m := range s.members {
		value, given := read[m.name]
		switch {
		case !given && !m.optional:
			return nil, misfit(m.name, "is missing")
		case d.all || !given:
		case m.dropped:
			delete(read, m.name)
			d.changed = true
		case m.respelled:
			d.changed = true
			read[m.name] = json.RawMessage(keyText(m.value.typ, value.(json.RawMessage)))
		}
	}
	return read, nil
}

// fieldOf returns a field, and makes the embedded structs on the way to it.
func fieldOf(v reflect.Value, way []int) reflect.Value {
	for _, i := range way {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = reflect.Indirect(v).Field(i)
	}
	return v
}

func (d *decoder) dictionary(s *shape, v reflect.Value) (any, *ArgumentError) {
	read := map[string]any{}
	v.Set(reflect.MakeMap(s.typ))
	for d.json.More() {
		token, _ := d.json.Token()
		name := token.(string)
		key, elem, err := reflect.New(s.typ.Key()).Elem(), reflect.New(s.typ.Elem()).Elem(), error(nil)
		switch own, ok := key.Addr().Interface().(encoding.TextUnmarshaler); {
		case ok:
			err = own.UnmarshalText([]byte(name))
		case s.keys.elem != nil: // a number
			err = json.Unmarshal([]byte(name), key.Addr().Interface())
		default:
			key.SetString(name)
		}
		if err != nil || s.keys.fits != nil && !s.keys.fits(name) {
			return nil, &ArgumentError{Reason: "names a member that cannot be read as " + s.typ.Key().String(), Err: err}
		}
		if v.MapIndex(key).IsValid() {
			return nil, misfit("", "names a member twice")
		}
		value, bad := d.value(s.elem, elem)
		if bad != nil {
			return nil, bad.within("[…]") // the name is a value
		}
		read[name] = value
		v.SetMapIndex(key, elem)
	}
	return read, nil
}

func (d *decoder) list(s *shape, v reflect.Value) (any, *ArgumentError) {
	read, list := []any{}, reflect.MakeSlice(reflect.SliceOf(s.typ.Elem()), 0, 0)
	for d.json.More() {
		elem := reflect.New(s.typ.Elem()).Elem()
		value, bad := d.value(s.elem, elem)
		if bad != nil {
			return nil, bad.within("[" + strconv.Itoa(len(read)) + "]")
		}
		read, list = append(read, value), reflect.Append(list, elem)
	}
	if v.Kind() == reflect.Slice {
		v.Set(list.Convert(s.typ))
	} else if reflect.Copy(v, list); len(read) != v.Len() {
		return nil, misfit("", fmt.Sprintf("must have %d elements and has %d", v.Len(), len(read)))
	}
	return read, nil
}

// integerText returns the plain text of a number that is an integer. To JSON Schema, and to most
// languages that write JSON, 1 and 1.0 are one value.
func integerText(number []byte) []byte {
	if mantissa, _, _ := bytes.Cut(bytes.ToLower(number), []byte("e")); len(bytes.Trim(mantissa, "-0.")) == 0 {
		return []byte("0")
	}
	f, _, err := big.ParseFloat(string(number), 10, 128, big.ToNearestEven) // holds more than 64 bits
	if err != nil || !f.IsInt() || f.Sign() == 0 || f.MantExp(nil) > 64 {
		return number
	}
	return f.Append(nil, 'f', 0)
}

// What an error shows of names that a caller made up, so that it stays one line of a log.
const (
	maxShownPath = 256
	maxShownName = 64
)

// shown makes a caller's name fit for an error.
func shown(name string) string {
	name = cut(name, maxShownName)
	if quoted := strconv.Quote(name); len(quoted) != len(name)+2 || name == "" {
		return quoted
	}
	return name
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
