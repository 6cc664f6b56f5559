package canon

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"
)

// lossChecker finds what encoding/json leaves out of a value without an error:
// two values that differ only there have one text. It is one walk through the
// value, which skips the types that cannot lose anything.
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

// loss is what a value loses.
type loss struct {
	path string // where in the value, such as ".Items[2].Amount"
	what string // of which type it is, and what becomes of it
}

// Error implements error. It names types and fields, and no values.
func (l *loss) Error() string {
	if l.path == "" {
		return "the value, " + l.what
	}
	if l.path[0] == '.' {
		return l.path[1:] + ", " + l.what
	}
	return l.path + ", " + l.what
}

// within returns an error as seen from around it.
func within(step string, err error) error {
	if lost, ok := err.(*loss); ok {
		lost.path = step + lost.path
	}
	return err
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

// any walks through a value that cannot be addressed. The types of decoded JSON take
// no detour.
func (w *lossWalk) any(value any) error {
	switch known := value.(type) {
	case nil, string, bool, float64, int, int64, json.Number, json.RawMessage, time.Time:
		return nil
	case map[string]any:
		if err := w.enter(reflect.ValueOf(value)); err != nil {
			return err
		}
		for _, member := range known {
			if err := w.any(member); err != nil {
				return within("[...]", err) // a key may be personal
			}
		}
		w.leave(reflect.ValueOf(value))
		return nil
	case []any:
		if err := w.enter(reflect.ValueOf(value)); err != nil {
			return err
		}
		for i, element := range known {
			if err := w.any(element); err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
		}
		w.leave(reflect.ValueOf(value))
		return nil
	}
	return w.value(reflect.ValueOf(value))
}

func (w *lossWalk) value(v reflect.Value) error {
	losses := w.of(v.Type(), v.CanAddr())
	switch {
	case losses == nil:
		return nil
	case losses.every != nil:
		lost := *losses.every
		return &lost
	case v.Kind() == reflect.Interface && v.CanInterface():
		return w.any(v.Interface())
	case v.Kind() == reflect.Interface: // embedded, of a type that is not exported
		if v.IsNil() {
			return nil
		}
		return w.value(v.Elem())
	}
	if err := w.enter(v); err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			if err := w.value(v.Elem()); err != nil {
				return err
			}
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
		for i := range losses.fields {
			f := &losses.fields[i]
			field, err := v.FieldByIndexErr(f.index)
			if err != nil { // behind an embedded pointer that is nil
				continue
			}
			if err := w.value(field); err != nil {
				return within(f.path, err)
			}
		}
	}
	w.leave(v)
	return nil
}

// enter counts what is about to be looked into: brackets and each element take a byte at
// the least.
func (w *lossWalk) enter(v reflect.Value) error {
	w.depth++
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array:
		w.left -= 1 + v.Len()
	case reflect.Struct:
		w.left--
	}
	switch {
	case w.left < 0:
		return errTooLarge
	case w.depth > maxWalkDepth:
		return errTooDeep
	case w.depth <= maxUnseen || !closesCircles(v):
		return nil
	case w.path[visitOf(v)]:
		return &json.UnsupportedValueError{Value: v, Str: fmt.Sprintf("encountered a cycle via %s", v.Type())}
	case w.path == nil:
		w.path = make(map[visit]bool)
	}
	w.path[visitOf(v)] = true
	return nil
}

func (w *lossWalk) leave(v reflect.Value) {
	if w.depth > maxUnseen && closesCircles(v) {
		delete(w.path, visitOf(v))
	}
	w.depth--
}

// closesCircles reports whether a value can lie within itself.
func closesCircles(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		return !v.IsNil()
	default:
		return false
	}
}

// visitOf names a pointer, a map or a slice.
func visitOf(v reflect.Value) visit {
	at := visit{pointer: v.Pointer(), kind: v.Type()}
	if v.Kind() == reflect.Slice {
		at.length = v.Len()
	}
	return at
}

// of returns what the values of a type lose.
func (c *lossChecker) of(t reflect.Type, addressable bool) *typeLosses {
	types := &c.types[0]
	if addressable {
		types = &c.types[1]
	}
	known, ok := types.Load(t)
	if !ok {
		w := typeWalk{strict: c.strict, known: map[place]bool{{t, addressable}: true}}
		known, _ = types.LoadOrStore(t, w.losses(place{t, addressable}))
	}
	return known.(*typeLosses)
}
