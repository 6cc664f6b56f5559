package tool

import "reflect"

// shape is what a type says of a JSON value.
type shape struct {
	kind     shapeKind
	typ      reflect.Type
	nullable bool
	object   *object // of a struct
	elem     *shape  // of a list, a map or a pointer
	// quoted values stand in a string, by the option of the json tag.
	quoted bool
}

// shapeKind says how a JSON value is read.
type shapeKind int

const (
	// anything is looked at by encoding/json only: types that read their own
	// JSON, interfaces, bytes.
	anything shapeKind = iota
	aString
	aBool
	anInt
	aUint
	aFloat
	aNumber // of any size: json.Number
	aPointer
	anObject
	aList
	anArray // of a fixed length
	aMap
)

// object is a JSON object whose members are the fields of a struct.
type object struct {
	members map[string]*member
	ordered []*member
}

// member is a field of a struct as it stands in JSON.
type member struct {
	name     string
	pos      int
	value    *shape
	required bool
	// dropped members are not compared.
	dropped bool
	// respelled members are part of the key and write their own text: they are
	// compared by it.
	respelled bool
}

// jsonName is what values of a kind are called in JSON.
func (k shapeKind) jsonName() string {
	switch k {
	case aString:
		return "string"
	case aBool:
		return "bool"
	case anInt, aUint, aFloat, aNumber:
		return "number"
	case aList, anArray:
		return "array"
	default:
		return "object"
	}
}

// jsonNameOf names what a JSON value is that begins with a byte.
func jsonNameOf(first byte) string {
	switch first {
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	case '[':
		return "array"
	case '{':
		return "object"
	case 'n':
		return "null"
	default:
		return "number"
	}
}
