package rpc

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool/runner"
)

// KeyName is the metadata, or the header, that has a call's key.
const KeyName = "idempotency-key"

// keyError is a request whose key cannot be used.
type keyError struct {
	code   door.Code
	reason string
}

func (e *keyError) Error() string { return e.reason }

const newKey = "make a key once for this action, such as a UUID, and send it again unchanged with every retry"

// key returns the key of a request: its field request_id, or the metadata. If a request has both,
// they must be equal. Its client knows the metadata as place: "metadata" or "header".
func (m *method) key(request protoreflect.Message, metadata []string, place string) (string, error) {
	sent, err := metadataKey(metadata, place)
	if err != nil {
		return "", err
	}
	field := ""
	if m.requestID != nil {
		field = request.Get(m.requestID).String()
	}
	switch {
	case field != "" && len(metadata) > 0 && sent != field:
		return "", &keyError{door.KeyInvalid, "The field request_id and the " + place + " " + KeyName + " differ: send one of them, or the same in both."}
	case field == "" && len(metadata) == 0:
		return "", &keyError{door.KeyRequired, "The request has no key: " + newKey + ", " + m.where(place) + "."}
	case field == "":
		field = sent
	}
	if len(field) > door.MaxKey {
		return "", keyInvalid("is %d bytes long, and %d is the most", len(field), door.MaxKey)
	}
	if i := strings.IndexFunc(field, unicode.IsControl); i >= 0 {
		return "", keyInvalid("has a control character at byte %d", i)
	}
	if !utf8.ValidString(field) {
		return "", keyInvalid("is not valid UTF-8")
	}
	if !dedup.UsableToolCallID(field, m.name) {
		return "", keyInvalid("is empty, null, None or the name of the method, and names no single call")
	}
	return field, nil
}

// where says in which places this method takes a key.
func (m *method) where(place string) string {
	if m.requestID == nil {
		return "in the " + place + " " + KeyName
	}
	return "in the field request_id or in the " + place + " " + KeyName
}

// metadataKey reads the values of the metadata, as package httpdedup reads the header.
func metadataKey(values []string, place string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", keyInvalid("occurs %d times in the %s", len(values), place)
	}
	key, _, problem := door.ReadHeader(values[0])
	if problem != "" {
		return "", keyInvalid("%s", problem)
	}
	return key, nil
}

func keyInvalid(format string, args ...any) error {
	return &keyError{door.KeyInvalid, "The key " + fmt.Sprintf(format, args...) + ": " + newKey + "."}
}

// ReplayedName is the metadata, or the header, that marks an earlier request's answer.
const ReplayedName = "idempotency-replayed"

// KeyToAdd returns the key that a client adds to a request: the context's or, if it has none, a new
// one. It is empty if the request has a key in its field request_id or among the metadata. If that
// is another than the context's, the error is a *dedup.InvalidError: it may be new on every try.
func KeyToAdd(ctx context.Context, request any, metadata []string, place string) (string, error) {
	key, carried := runner.KeyFrom(ctx)
	has := len(metadata) > 0
	if has && carried {
		if sent, err := metadataKey(metadata, place); err != nil || sent != key {
			return "", door.KeyConflict("the "+place+" "+KeyName, key)
		}
	}
	if m, ok := request.(proto.Message); ok {
		if f := requestID(m.ProtoReflect().Descriptor()); f != nil && m.ProtoReflect().Get(f).String() != "" {
			if has = true; carried && m.ProtoReflect().Get(f).String() != key {
				return "", door.KeyConflict("the field request_id", key)
			}
		}
	}
	switch {
	case has:
		return "", nil
	case carried:
		return key, nil
	}
	return dedup.NewKey(), nil
}

// WriteKey returns a key as metadata has it: in quotes where it must be.
func WriteKey(key string) string {
	if bare, params, problem := door.ReadHeader(key); problem == "" && params == "" && bare == key {
		return key
	}
	if quoted, ok := door.HeaderString(key); ok {
		return quoted
	}
	return key // which the server refuses
}
