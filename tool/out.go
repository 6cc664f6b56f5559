package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

// outProblems finds what has no JSON in the type of a tool's results. At run
// time it would roll back every call.
func outProblems(tool string, out reflect.Type) []Problem {
	w := &outWalker{tool: tool, seen: map[reflect.Type]bool{}}
	w.walk(out, "Out")
	return w.problems
}

type outWalker struct {
	tool     string
	seen     map[reflect.Type]bool
	problems []Problem
}

func (w *outWalker) walk(t reflect.Type, path string) {
	if w.seen[t] || t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return
	}
	w.seen[t] = true
	switch t.Kind() {
	case reflect.Pointer:
		w.walk(t.Elem(), path)
	case reflect.Slice, reflect.Array, reflect.Map:
		w.walk(t.Elem(), path+"[]")
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" {
				w.walk(f.Type, path+"."+f.Name)
			}
		}
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		w.problems = append(w.problems, Problem{w.tool, path, fmt.Sprintf("is %s, which has no JSON", t)})
	}
}
