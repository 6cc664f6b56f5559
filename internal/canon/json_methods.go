package canon

import (
	"encoding/json"
	"reflect"
)

var (
	marshalerType   = reflect.TypeFor[json.Marshaler]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

// WritesJSON reports whether encoding/json writes a type by a method of it: MarshalJSON, or
// MarshalJSONTo since Go 1.27.
func WritesJSON(t reflect.Type) bool {
	return t.Implements(marshalerType) || hasStreamMethod(t, "MarshalJSONTo", "Encoder")
}

// ReadsJSON reports whether encoding/json reads a type by a method of it: UnmarshalJSON, or
// UnmarshalJSONFrom since Go 1.27.
func ReadsJSON(t reflect.Type) bool {
	return t.Implements(unmarshalerType) || hasStreamMethod(t, "UnmarshalJSONFrom", "Decoder")
}

// hasStreamMethod reports whether a type has a method on an encoder or a decoder of package
// jsontext. It compares names, because that package exists only if encoding/json calls the method.
func hasStreamMethod(t reflect.Type, name, coder string) bool {
	method, ok := t.MethodByName(name)
	if !ok {
		return false
	}
	args := method.Type.NumIn()
	if args == 0 || method.Type.In(args-1).Kind() != reflect.Pointer {
		return false
	}
	arg := method.Type.In(args - 1).Elem()
	return arg.PkgPath() == "encoding/json/jsontext" && arg.Name() == coder
}
