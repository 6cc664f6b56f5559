package dedup

import (
	"reflect"
	"time"
)

// keptArgs returns a copy of args that the caller's later writes do not change: slices, slices in
// them and plain values behind pointers are copied. Maps, structs and other pointers are not.
func keptArgs(args []any) []any {
	kept := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case nil, string, bool, int, int16, int32, int64, float64, time.Time:
			kept[i] = arg
		default:
			kept[i] = keptArg(reflect.ValueOf(arg)).Interface()
		}
	}
	return kept
}

func keptArg(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		kept := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(kept, v)
		if v.Type().Elem().Kind() == reflect.Slice {
			for i := range v.Len() {
				kept.Index(i).Set(keptArg(v.Index(i)))
			}
		}
		return kept
	case reflect.Pointer:
		if v.IsNil() || !isPlain(v.Type().Elem()) {
			return v
		}
		kept := reflect.New(v.Type().Elem())
		kept.Elem().Set(keptArg(v.Elem()))
		if kept.Type() != v.Type() { // a named pointer type
			return kept.Convert(v.Type())
		}
		return kept
	default:
		return v
	}
}

// isPlain reports whether assigning a value of the type copies all of it. Slices count, because
// keptArg copies them.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Slice, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	default:
		return t == reflect.TypeFor[time.Time]()
	}
}
