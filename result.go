package dedup

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/table"
)

// Result is the answer of a call and the way it was found. If the error belongs to a record
// (refused, expired, reused), every field but Value is set.
type Result[R any] struct {
	// Value is the result of the one execution of the effect, decoded from its recorded JSON text.
	// The caller that ran the effect and all later callers get equal values, without unexported
	// fields. As in encoding/json, numbers in an R of any become float64; use a type or
	// json.RawMessage if that loses digits. ErrInvalid, with the effect rolled back, is the answer
	// to a type none of whose fields are encoded, a value that refers to itself, and a string or a
	// map key that is not valid UTF-8.
	Value R
	// Replayed is true if Value came from the record, and this call did not run the effect or
	// rolled it back.
	Replayed bool
	// Recovered is true if the reply to a COMMIT of this call was lost and the call then found its
	// record. Replayed is true too, but the effect is most likely this call's own. Use it to count
	// effects, not answers.
	Recovered bool
	// CreatedAt is the time at which the record was written, and ExpiresAt the time until which the
	// result is replayed. Both are by the database's clock. In DoTx they take effect when the
	// caller commits. ExpiresAt is zero if the answer is not kept.
	CreatedAt, ExpiresAt time.Time
	// Waited is the time that the call waited for a twin, zero without one. In DoTx it is the time
	// that the record's statement waited; a wait for the lock, inside Postgres, is not measured.
	Waited time.Duration
	// Attempts counts this call's attempts, including those without a connection. It does not count
	// an attempt that found a running twin at its start. It is 0 if the answer came from a twin, or
	// from a look-up before the first attempt. Recording a refusal is a further attempt.
	Attempts int
}

// response is the answer of a call, as its attempts set it.
type response struct {
	// rec is the record that answers the call, nil without one.
	rec *table.Record
	// err is the error of a call of a DoBatch that no record answers.
	err error
	// executed is true if this call wrote the record, and recovered if the record was found after a
	// lost COMMIT of this call.
	executed, recovered bool
	// ownRec is the record as an attempt of this call wrote it, with its answer. It is nil if rec
	// is another call's, or if the stored answer counts.
	ownRec *table.Record
	// cause is the effect's error behind a refusal that this call recorded.
	cause error
}

// encodeResult returns the text that records value.
//
// A [json.RawMessage] is stored byte for byte, any other value as encoding/json writes it. Postgres
// accepts every text of encoding/json with two exceptions, which are found here, before COMMIT:
// text that is not UTF-8, and text that is too long. A string that is not UTF-8 is refused, because
// encoding/json would change it.
func encodeResult[R any](value R, max int) ([]byte, error) {
	if raw, ok := any(value).(json.RawMessage); ok {
		if raw == nil {
			raw = json.RawMessage("null")
		}
		return raw, checkStorable(raw, max)
	}
	return storable(value, max)
}

func storable(value any, max int) ([]byte, error) {
	text, err := canon.Encode(value, true)
	if err != nil {
		return nil, invalidResult(err, "cannot be encoded")
	}
	return text, checkStorable(text, max)
}

func checkStorable(text []byte, max int) error {
	switch {
	case len(text) > max:
		return invalidResult(nil, "has %d bytes, and Options.MaxResultBytes allows %d; return a reference in its place, or raise the limit", len(text), max)
	case !utf8.Valid(text):
		return invalidResult(nil, "is not valid UTF-8")
	case !json.Valid(text):
		return invalidResult(nil, "is not valid JSON")
	}
	return nil
}

// decodeStored decodes a recorded text. If the text does not fit R, the error is an ErrInvalid with
// the text.
func decodeStored[R any](text string) (value R, err error) {
	err = decodeResult([]byte(text), &value)
	if err == nil && !fitsNothing[R](value, text) {
		return value, nil
	}
	return value, &InvalidError{What: "result", Reason: "is recorded, because the call ran, and does not fit the caller's type", Stored: json.RawMessage(text), Err: errors.Unwrap(err)}
}

// fitsNothing reports whether no name of a stored object is a field of the struct R, or of the
// struct that R points to. encoding/json decodes such an object into a zero value without an error,
// so a renamed, nested or unrelated type would get an empty value.
func fitsNothing[R any](value R, text string) bool {
	t, v := reflect.TypeFor[R](), reflect.ValueOf(value)
	if t.Kind() == reflect.Pointer && !v.IsNil() {
		t, v = t.Elem(), v.Elem()
	}
	if t.Kind() != reflect.Struct || t.NumField() == 0 || !v.IsZero() || decodesItself(t) {
		return false
	}
	var names map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &names) != nil || len(names) == 0 {
		return false
	}
	for name, part := range names {
		one, err := json.Marshal(map[string]json.RawMessage{name: part})
		if err != nil {
			return false
		}
		d := json.NewDecoder(bytes.NewReader(one))
		d.DisallowUnknownFields() // the only error left: the whole text was decoded before
		if d.Decode(reflect.New(t).Interface()) == nil {
			return false
		}
	}
	return true
}

// decodesItself reports whether a type has a method with which encoding/json decodes it.
func decodesItself(t reflect.Type) bool {
	_, v1 := reflect.PointerTo(t).MethodByName("UnmarshalJSON")
	_, v2 := reflect.PointerTo(t).MethodByName("UnmarshalJSONFrom")
	return v1 || v2
}

// decodeResult decodes a recorded text into a caller's value, and overwrites its old content.
func decodeResult[R any](text []byte, value *R) error {
	var zero R
	*value = zero
	if raw, ok := any(value).(*json.RawMessage); ok {
		*raw = bytes.Clone(text)
		return nil
	}
	if err := json.Unmarshal(text, value); err != nil {
		return invalidResult(err, "cannot be decoded into its own type")
	}
	return nil
}
