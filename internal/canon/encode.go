package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"
)

var (
	errTooLarge = errors.New("its JSON text has more bytes than may be")
	errTooDeep  = errors.New("it nests too deep")
	errNoUTF8   = errors.New("it has a string that is not valid UTF-8; encode binary data as []byte or base64")
)

// Encode returns the JSON text of a result, and an error where encoding/json would leave a
// part of it out, or replace it, without one. It refuses a value that refers to itself, and
// does not begin to write one that must have more than limit bytes. With escapeHTML it writes
// <, > and & as escapes.
func Encode(result any, limit int, escapeHTML bool) ([]byte, error) {
	return resultLosses.encode(result, limit, escapeHTML)
}

// IsTooLarge reports whether Encode has refused a value because of the limit.
func IsTooLarge(err error) bool { return err == errTooLarge }

// lossChecker finds what encoding/json leaves out of a value without an error:
// two values that differ only there have one text. It is one walk through the
// value, which skips the types that cannot lose anything (losses.go).
//
// A MarshalJSON or MarshalText that a type declares itself is trusted, and so are
// a tag `json:"-"`, omitempty and an embedded field's name that the outer type
// uses again: they say what the type's author wants.
type lossChecker struct {
	// strict says that unexported fields beside exported ones count as lost too.
	strict bool
	// types are the *typeLosses of each reflect.Type: of its values that cannot be
	// addressed, and of those that can.
	types [2]sync.Map
}

var (
	argLosses    = lossChecker{strict: true}
	resultLosses lossChecker
)

func (c *lossChecker) encode(value any, limit int, escapeHTML bool) ([]byte, error) {
	value, err := c.lossless(value, limit)
	if err != nil {
		return nil, err
	}
	var text []byte
	if escapeHTML {
		text, err = json.Marshal(value)
	} else {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(value)
		text = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
	if err != nil {
		return nil, err
	}
	// Marshal replaces bytes that are no UTF-8 by U+FFFD: as an escape with
	// encoding/json as it always was, raw with the one built on version 2. The
	// value may also hold that character by right, so it has the last word.
	replaced := bytes.Contains(text, []byte(`\ufffd`)) || bytes.Contains(text, []byte("\ufffd"))
	if replaced && hasInvalidString(value) {
		return nil, errNoUTF8
	}
	return text, nil
}

// lossless returns what is to be encoded for value: value itself, or a pointer to
// a copy of it where MarshalJSON and MarshalText have pointer receivers and
// encoding/json would leave them out otherwise. It refuses a value that refers to
// itself, and one that must have more than limit bytes as JSON: pointers that are
// shared can stand for more than any memory holds.
func (c *lossChecker) lossless(value any, limit int) (any, error) {
	err := (&lossWalk{lossChecker: c, left: limit}).any(value)
	if _, lost := err.(*loss); !lost || reflect.TypeOf(value).Kind() == reflect.Pointer {
		return value, err
	}
	pointer := reflect.New(reflect.TypeOf(value))
	pointer.Elem().Set(reflect.ValueOf(value))
	value = pointer.Interface()
	return value, (&lossWalk{lossChecker: c, left: limit}).any(value)
}

// loss is what a value loses.
type loss struct {
	path string // where in the value, such as ".Items[2].Amount"
	what string // of which type it is, and how that is encoded
}

// Error implements error. It names types and fields, and no values.
func (l *loss) Error() string {
	switch {
	case l.path == "":
		return "the value, " + l.what
	case l.path[0] == '.':
		return l.path[1:] + ", " + l.what
	default:
		return l.path + ", " + l.what
	}
}

// within returns an error as seen from around it.
func within(step string, err error) error {
	if lost, ok := err.(*loss); ok {
		lost.path = step + lost.path
	}
	return err
}

// lossWalk is one walk through a value.
type lossWalk struct {
	*lossChecker
	left  int            // how many more bytes the text may have
	depth int            // how many pointers, arrays and objects the walk is in
	path  map[visit]bool // those of them that can close a circle, beyond maxUnseen
}

const (
	// maxUnseen is how deep the walk is before it remembers where it has been, as in
	// encoding/json: circles are rare.
	maxUnseen = 1000
	// maxWalkDepth ends the walk before the stack does. encoding/json reads no text of
	// half this depth: each array or object counts with the pointer to it.
	maxWalkDepth = 20_000
)

// any walks through a value that cannot be addressed. Decoded JSON takes no detour.
func (w *lossWalk) any(value any) error {
	switch known := value.(type) {
	case nil, string, bool, float64, int, int64, json.Number, json.RawMessage, time.Time:
		return nil
	case map[string]any:
		return w.inside(reflect.ValueOf(value), func() error {
			for _, member := range known {
				if err := w.any(member); err != nil {
					return within("[...]", err) // a key may be personal
				}
			}
			return nil
		})
	}
	return w.value(reflect.ValueOf(value))
}

func (w *lossWalk) value(v reflect.Value) error {
	if v.Kind() == reflect.Interface {
		switch {
		case v.CanInterface():
			return w.any(v.Interface())
		case v.IsNil(): // embedded, of a type that is not exported
			return nil
		default:
			return w.value(v.Elem())
		}
	}
	losses := w.of(v.Type(), v.CanAddr())
	switch {
	case losses == nil:
		return nil
	case losses.every != nil:
		lost := *losses.every
		return &lost
	}
	return w.inside(v, func() error { return w.parts(v, losses.fields) })
}

// parts walks through what a value is made of: of a struct through these fields.
func (w *lossWalk) parts(v reflect.Value, fields []jsonField) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return w.value(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := w.value(v.Index(i)); err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if err := w.value(entries.Value()); err != nil {
				return within("[...]", err)
			}
		}
	case reflect.Struct:
		for i := range fields {
			field, err := v.FieldByIndexErr(fields[i].index)
			if err != nil { // behind an embedded pointer that is nil
				continue
			}
			if err := w.value(field); err != nil {
				return within(fields[i].path, err)
			}
		}
	}
	return nil
}

// inside walks through a value once it is counted, unless the walk is inside of it already.
// Brackets and each element take a byte at the least.
func (w *lossWalk) inside(v reflect.Value, walk func() error) error {
	w.depth++
	circular := false // whether the value can lie within itself
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		circular = !v.IsNil()
		w.left -= 1 + v.Len()
	case reflect.Array:
		w.left -= 1 + v.Len()
	case reflect.Struct:
		w.left--
	case reflect.Pointer:
		circular = !v.IsNil()
	}
	switch {
	case w.left < 0:
		return errTooLarge
	case w.depth > maxWalkDepth:
		return errTooDeep
	case circular && w.depth > maxUnseen:
		at := visitOf(v)
		if w.path[at] {
			return &json.UnsupportedValueError{Value: v, Str: fmt.Sprintf("encountered a cycle via %s", v.Type())}
		}
		if w.path == nil {
			w.path = make(map[visit]bool)
		}
		w.path[at] = true
		defer delete(w.path, at)
	}
	err := walk()
	w.depth--
	return err
}

// of returns what the values of a type lose.
func (c *lossChecker) of(t reflect.Type, addressable bool) *typeLosses {
	types := &c.types[0]
	if addressable {
		types = &c.types[1]
	}
	known, ok := types.Load(t)
	if !ok {
		at := place{t, addressable}
		w := typeWalk{strict: c.strict, known: map[place]bool{at: true}}
		known, _ = types.LoadOrStore(t, w.losses(at))
	}
	return known.(*typeLosses)
}

// visit names a pointer, a map or a slice that a walk has come to.
type visit struct {
	pointer uintptr
	length  int
	kind    reflect.Type
}

func visitOf(v reflect.Value) visit {
	at := visit{pointer: v.Pointer(), kind: v.Type()}
	if v.Kind() != reflect.Pointer {
		at.length = v.Len()
	}
	return at
}
