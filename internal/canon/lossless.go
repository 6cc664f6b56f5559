package canon

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"
)

// lossChecker finds what encoding/json leaves out of a value without an error:
// two values that differ only there have one text. What a type can lose is found
// out once; values are looked at only where the type leaves it open, behind
// pointers and in slices, maps and interfaces.
//
// A MarshalJSON or MarshalText that a type declares itself is trusted, and so are
// a tag `json:"-"`, omitempty and an embedded field's name that the outer type
// uses again: they say what the type's author wants.
type lossChecker struct {
	// strict says that unexported fields beside exported ones count as lost too.
	strict bool
	// shapes are the *shape of each reflect.Type: of its values that cannot be
	// addressed, and of those that can.
	shapes [2]sync.Map
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

// within returns the loss as seen from around it.
func (l *loss) within(step string) *loss {
	if l != nil {
		l.path = step + l.path
	}
	return l
}

// lossless returns what is to be encoded for value: value itself, or a pointer to
// a copy of it where MarshalJSON and MarshalText have pointer receivers and
// encoding/json would leave them out otherwise.
func (c *lossChecker) lossless(value any) (any, *loss) {
	lost := c.inAny(value, 0)
	if lost == nil || reflect.TypeOf(value).Kind() == reflect.Pointer {
		return value, lost
	}
	pointer := reflect.New(reflect.TypeOf(value))
	pointer.Elem().Set(reflect.ValueOf(value))
	value = pointer.Interface()
	return value, c.inAny(value, 0)
}

// maxLossDepth ends the walk through a value that refers to itself, which
// encoding/json refuses. Everything as deep as this is refused anyway.
const maxLossDepth = 100_000

// inAny looks at a value that cannot be addressed. The types of decoded JSON take
// no detour.
func (c *lossChecker) inAny(value any, depth int) *loss {
	if depth > maxLossDepth {
		return nil
	}
	switch value := value.(type) {
	case nil, string, bool, float64, int, int64, json.Number, json.RawMessage, time.Time:
		return nil
	case map[string]any:
		for _, member := range value {
			if lost := c.inAny(member, depth+1); lost != nil {
				return lost.within("[...]") // a key may be personal
			}
		}
		return nil
	case []any:
		for i, element := range value {
			if lost := c.inAny(element, depth+1); lost != nil {
				return lost.within(fmt.Sprintf("[%d]", i))
			}
		}
		return nil
	}
	return c.in(reflect.ValueOf(value), c.shape(reflect.TypeOf(value), false), depth)
}

func (c *lossChecker) in(v reflect.Value, s *shape, depth int) *loss {
	switch {
	case s == nil || depth > maxLossDepth:
		return nil
	case s.lost != nil:
		lost := *s.lost
		return &lost
	}
	switch v.Kind() {
	case reflect.Interface:
		return c.inAny(v.Interface(), depth+1)
	case reflect.Pointer:
		if !v.IsNil() {
			return c.in(v.Elem(), s.elem, depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if lost := c.in(v.Index(i), s.elem, depth+1); lost != nil {
				return lost.within(fmt.Sprintf("[%d]", i))
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if lost := c.in(entries.Value(), s.elem, depth+1); lost != nil {
				return lost.within("[...]")
			}
		}
	case reflect.Struct:
		for i := range s.fields {
			f := &s.fields[i]
			field, err := v.FieldByIndexErr(f.index)
			if err != nil { // behind an embedded pointer that is nil
				continue
			}
			if lost := c.in(field, f.shape, depth+1); lost != nil {
				return lost.within(f.path)
			}
		}
	}
	return nil
}

// shape returns where values of a type lose something, nil for nowhere.
func (c *lossChecker) shape(t reflect.Type, addressable bool) *shape {
	shapes := &c.shapes[0]
	if addressable {
		shapes = &c.shapes[1]
	}
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	known, _ := shapes.LoadOrStore(t, newShape(t, addressable, c.strict))
	return known.(*shape)
}

// Encodable returns what is to be encoded for a result, and an error where encoding/json
// would leave a part of it out without one.
func Encodable(result any) (any, error) {
	result, lost := resultLosses.lossless(result)
	if lost != nil {
		return nil, lost
	}
	return result, nil
}

// Encodes reports whether encoding/json encodes a field of a struct, or there is nothing in
// it to encode.
func Encodes(t reflect.Type) bool { return len(fieldsOf(t).encoded) > 0 || holdsNothing(t) }
