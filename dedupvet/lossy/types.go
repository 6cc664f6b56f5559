package lossy

import (
	"fmt"
	"go/types"
	"reflect"
	"strings"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// lossOf says what values of a type lose, "" for nothing. It follows the library:
// a value whose methods have pointer receivers is encoded through a pointer, if it
// would lose something otherwise. What an interface holds is not known here.
func lossOf(t types.Type, strict bool) string {
	if t == nil {
		return ""
	}
	w := walker{strict: strict, seen: make(map[place]bool)}
	if w.find(t, false, "") == "" {
		return ""
	}
	w = walker{strict: strict, seen: make(map[place]bool)}
	return w.find(t, true, "")
}

// place is a type and whether its values can be addressed: then encoding/json
// uses methods with pointer receivers too.
type place struct {
	t           types.Type
	addressable bool
}

type walker struct {
	strict bool // unexported fields beside exported ones count too
	seen   map[place]bool
	depth  int
}

// maxDepth ends the walk through generic types that grow with each step.
const maxDepth = 50

func (w *walker) find(t types.Type, addressable bool, path string) string {
	t = types.Unalias(t)
	if at := (place{t, addressable}); w.seen[at] || w.depth > maxDepth {
		return ""
	} else {
		w.seen[at] = true
	}
	w.depth++
	defer func() { w.depth-- }()

	switch u := t.Underlying().(type) {
	case *types.Interface:
		if api.IsError(t) {
			return says(path, t, "is encoded as {} by most errors; hold its text")
		}
		return ""
	case *types.Pointer:
		return w.find(u.Elem(), true, path)
	}
	if name, index := marshalMethod(t, addressable); index != nil {
		if s, ok := t.Underlying().(*types.Struct); ok && len(index) > 1 {
			return w.promoted(t, s, name, index[0], addressable, path)
		}
		return ""
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		return w.find(u.Elem(), true, path+"[]")
	case *types.Array:
		return w.find(u.Elem(), addressable, path+"[]")
	case *types.Map:
		return w.find(u.Elem(), false, path+"[]")
	case *types.Struct:
		if !holdsNothing(t) {
			return w.fields(t, u, addressable, path)
		}
	}
	return ""
}

// promoted looks at a struct that has its method from an embedded field.
func (w *walker) promoted(t types.Type, s *types.Struct, method string, giver int, addressable bool, path string) string {
	from := s.Field(giver)
	for i := range s.NumFields() {
		if f := s.Field(i); i != giver && (f.Exported() || w.strict) && !leftOut(s, i) {
			return says(path, t, fmt.Sprintf("is encoded by the %s of its embedded %s, which leaves out %s; declare the method on %s, or give the embedded field a name",
				method, api.Short(from.Type()), f.Name(), api.Short(t)))
		}
	}
	return w.find(from.Type(), addressable, path+"."+from.Name())
}

// fields looks at a struct that is encoded field by field. Two fields of one name
// are the structtag analyzer's to find, which go vet runs.
func (w *walker) fields(t types.Type, s *types.Struct, addressable bool, path string) string {
	encoded, hidden := 0, ""
	for i := range s.NumFields() {
		f := s.Field(i)
		if leftOut(s, i) {
			continue
		}
		_, embedded := embeddedStruct(s, i)
		if f.Exported() || embedded {
			encoded++
		} else if hidden == "" {
			hidden = f.Name()
		}
	}
	switch {
	case hidden == "":
	case encoded == 0:
		reason := "is encoded as {} whatever it holds"
		if name, index := marshalMethod(t, true); index != nil && !addressable {
			reason += fmt.Sprintf("; its %s has a pointer receiver: hold a *%s", name, api.Short(t))
		}
		return says(path, t, reason)
	case w.strict && !has(t, "ProtoMessage"):
		return says(path, t, fmt.Sprintf("is encoded without %s, which is not exported; export it, or tag it json:\"-\" where it does not count", hidden))
	}
	for i := range s.NumFields() {
		f := s.Field(i)
		if leftOut(s, i) {
			continue
		}
		lost := ""
		if inner, embedded := embeddedStruct(s, i); embedded && jsonName(s, i) == "" {
			if !holdsNothing(inner) {
				_, byPointer := types.Unalias(f.Type()).(*types.Pointer)
				lost = w.fields(inner, inner.Underlying().(*types.Struct), addressable || byPointer, path+"."+f.Name())
			}
		} else if f.Exported() || embedded {
			lost = w.find(f.Type(), addressable, path+"."+f.Name())
		}
		if lost != "" {
			return lost
		}
	}
	return ""
}

func says(path string, t types.Type, reason string) string {
	where := strings.TrimPrefix(path, ".")
	if where == "" {
		where = "the value"
	}
	return fmt.Sprintf("%s, a %s, %s", where, api.Short(t), reason)
}

// marshalMethod is the method that encoding/json calls for a type's values, and
// the way to it: more than one step where it comes from an embedded field.
func marshalMethod(t types.Type, addressable bool) (name string, index []int) {
	for _, name := range []string{"MarshalJSON", "MarshalText"} {
		obj, index, _ := types.LookupFieldOrMethod(t, addressable, nil, name)
		if fn, ok := obj.(*types.Func); ok && fn.Signature().Params().Len() == 0 && fn.Signature().Results().Len() == 2 {
			return name, index
		}
	}
	return "", nil
}

func has(t types.Type, method string) bool {
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, method)
	_, ok := obj.(*types.Func)
	return ok
}

// embeddedStruct is the struct that a field embeds, itself or by pointer.
func embeddedStruct(s *types.Struct, i int) (types.Type, bool) {
	f := s.Field(i)
	t := types.Unalias(f.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	_, ok := t.Underlying().(*types.Struct)
	return t, ok && f.Embedded()
}

func jsonName(s *types.Struct, i int) string {
	name, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ",")
	return name
}

// leftOut says whether a field is to be left out, or holds nothing that could be.
func leftOut(s *types.Struct, i int) bool {
	f := s.Field(i)
	return reflect.StructTag(s.Tag(i)).Get("json") == "-" || f.Name() == "_" ||
		(f.Embedded() || !f.Exported()) && holdsNothing(f.Type())
}

// holdsNothing says whether values of a type hold nothing that a caller means:
// locks, functions, channels and what has no size.
func holdsNothing(t types.Type) bool {
	t = types.Unalias(t)
	switch u := t.Underlying().(type) {
	case *types.Signature, *types.Chan:
		return true
	case *types.Pointer:
		return isLock(u.Elem())
	case *types.Array:
		return u.Len() == 0 || holdsNothing(u.Elem())
	case *types.Struct:
		if isLock(t) {
			return true
		}
		for f := range u.Fields() {
			if !holdsNothing(f.Type()) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// isLock says whether a type is one of package sync's, which hold no data but Map.
func isLock(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "sync" && named.Obj().Name() != "Map"
}
