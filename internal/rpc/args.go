package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tooldedup/dedup"
)

// unknownFields is the member of the compared object with the fields that this program does not
// know. No JSON name of a field is like it.
const unknownFields = "(unknown fields)"

// args returns the compared form of a request: its JSON object by protobuf's JSON mapping, without
// the field that is the key, and the bytes of its unknown fields. Two encodings of one message have
// equal args, whatever the order of their fields and maps.
func (m *method) args(request proto.Message) (json.RawMessage, error) {
	request = m.withoutKey(request)
	text, err := jsonOf(request)
	if err != nil {
		return nil, err
	}
	members := map[string]json.RawMessage{"value": text}
	if !isWellKnown(request.ProtoReflect().Descriptor()) {
		clear(members)
		if err := json.Unmarshal(text, &members); err != nil {
			return nil, argsInvalid(err)
		}
	}
	unknown := map[string][]byte{}
	if err := collectUnknown(unknown, "", request.ProtoReflect()); err != nil {
		return nil, argsInvalid(err)
	}
	if len(unknown) > 0 {
		if members[unknownFields], err = json.Marshal(unknown); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members)
}

func jsonOf(request proto.Message) (json.RawMessage, error) {
	text, err := protojson.MarshalOptions{AllowPartial: true}.Marshal(request)
	if err != nil {
		return nil, argsInvalid(err)
	}
	return text, nil
}

// withoutKey returns a copy of the request without the field request_id.
func (m *method) withoutKey(request proto.Message) proto.Message {
	if m.requestID == nil {
		return request
	}
	request = proto.Clone(request)
	request.ProtoReflect().Clear(m.requestID)
	return request
}

// isWellKnown reports whether protobuf's JSON mapping has a special form for a type, such as a
// string for a Timestamp and any object for a Struct.
func isWellKnown(d protoreflect.MessageDescriptor) bool {
	return d.FullName().Parent() == "google.protobuf"
}

// argsInvalid is the error of a request without a JSON form. The cause names no values, but quotes
// type URLs, so that InvalidError does not print it.
func argsInvalid(err error) error {
	return &dedup.InvalidError{What: "call", Field: "Args", Reason: "have no JSON form: a string is not valid UTF-8, a well-known type is out of its range, an Any has a type that the server does not know, or two fields have one JSON name", Err: err}
}

// collectUnknown adds the unknown fields of m and of every message in it, by their path. It refuses
// a field whose JSON name is another field's too, as proto2 allows: the two would be compared as
// one.
func collectUnknown(to map[string][]byte, path string, m protoreflect.Message) (err error) {
	if packed, ok := m.Interface().(*anypb.Any); ok && packed.GetTypeUrl() != "" {
		inner, err := packed.UnmarshalNew()
		if err != nil {
			return err
		}
		return collectUnknown(to, path, inner.ProtoReflect())
	}
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		to[path] = sortedFields(unknown)
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := path + "." + string(f.FullName())
		if namesake := m.Descriptor().Fields().ByJSONName(f.JSONName()); namesake != nil && namesake.Number() != f.Number() {
			err = fmt.Errorf("the fields %s and %s have one JSON name", f.FullName(), namesake.FullName())
			return false
		}
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
					err = collectUnknown(to, fmt.Sprintf("%s[%q]", at, k.String()), v.Message())
					return err == nil
				})
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				if err = collectUnknown(to, fmt.Sprintf("%s[%d]", at, i), v.List().Get(i).Message()); err != nil {
					break
				}
			}
		default:
			err = collectUnknown(to, at, v.Message())
		}
		return err == nil
	})
	return err
}

// sortedFields returns the encoded fields in the order of their numbers. The order of fields with
// one number means something, and stays.
func sortedFields(encoded []byte) []byte {
	type field struct {
		number protowire.Number
		bytes  []byte
	}
	var fields []field
	for len(encoded) > 0 {
		number, _, n := protowire.ConsumeField(encoded)
		if n < 0 { // cannot be: the decoder has read it
			return encoded
		}
		fields = append(fields, field{number, encoded[:n]})
		encoded = encoded[n:]
	}
	slices.SortStableFunc(fields, func(a, b field) int { return int(a.number - b.number) })
	var sorted []byte
	for _, f := range fields {
		sorted = append(sorted, f.bytes...)
	}
	return sorted
}

// toolArgs returns a request as the arguments of a registry's tool: protobuf's JSON mapping, but
// with 64-bit numbers as numbers, as other doors' clients write them.
func (m *method) toolArgs(request proto.Message) (json.RawMessage, error) {
	request = m.withoutKey(request)
	text, err := jsonOf(request)
	if err == nil { // refuses a name that is there twice, of which the decoder would take the last
		_, err = dedup.FingerprintOf(text)
	}
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, argsInvalid(err)
	}
	return json.Marshal(unquoted(request.ProtoReflect().Descriptor(), value))
}

// unquoted returns the JSON of a message with its 64-bit numbers as numbers.
func unquoted(d protoreflect.MessageDescriptor, value any) any {
	object, ok := value.(map[string]any)
	if !ok || isWellKnown(d) {
		return value
	}
	for name, member := range object {
		f := d.Fields().ByJSONName(name)
		if f == nil {
			continue
		}
		switch {
		case f.IsMap():
			if members, ok := member.(map[string]any); ok {
				for key, value := range members {
					members[key] = unquotedField(f.MapValue(), value)
				}
			}
		case f.IsList():
			if list, ok := member.([]any); ok {
				for i, value := range list {
					list[i] = unquotedField(f, value)
				}
			}
		default:
			object[name] = unquotedField(f, member)
		}
	}
	return object
}

func unquotedField(f protoreflect.FieldDescriptor, value any) any {
	text, isText := value.(string)
	switch f.Kind() {
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if isText {
			return json.Number(text)
		}
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return unquoted(f.Message(), value)
	}
	return value
}
