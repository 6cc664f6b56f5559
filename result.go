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

// Result is what a call answers, and how it came by it. Beside an error that a
// record explains (refused, expired, reused) all but Value is filled in.
type Result[R any] struct {
	// Value is the result of the effect's one execution, as decoded from its
	// recorded JSON text: the caller that ran the effect and every later one
	// get equal values, without unexported fields. As encoding/json has it,
	// numbers in an R of any become float64; use a type, or json.RawMessage, where
	// that loses digits. ErrInvalid, with the effect rolled back, is the answer to a type of
	// which nothing is encoded, a value that refers to itself, and a string or a map's name
	// that is not valid UTF-8.
	Value R
	// Replayed is true when the value came from the record and the effect of
	// this call was not run, or was run and rolled back.
	Replayed bool
	// Recovered is true when the answer to a COMMIT of this very call was lost
	// and its record was found afterwards: Replayed is true too, but the effect
	// is most likely this call's own. Count effects by it, not answers.
	Recovered bool
	// CreatedAt is when the record was written, ExpiresAt until when the result
	// is replayed. The database's clock. In DoTx they are what will be
	// committed with the caller's transaction.
	CreatedAt, ExpiresAt time.Time
	// Waited is the time spent waiting for a twin, zero if there was none. In DoTx it is the time for
	// which the record's statement waited; a wait for the lock, inside Postgres, is not measured.
	Waited time.Duration
	// Attempts counts this call's attempts, those that got no connection too. One that
	// only met a twin at its start is not counted; 0 when the answer was taken over from a twin
	// or looked up first. Recording a refusal takes one of its own.
	Attempts int
}

// response is how a call ended.
type response struct {
	// rec is the record that answers the call, nil if there is none.
	rec *table.Record
	// err is the error of a call of a DoBatch that no record answers.
	err error
	// executed is true if this call wrote the record, and recovered if the record was found after a
	// lost COMMIT of this call.
	executed, recovered bool
	// cause is the effect's error behind a refusal that this call recorded.
	cause error
}

// encodeResult returns the text that records value.
//
// A [json.RawMessage] is stored byte for byte, anything else as encoding/json writes it. Postgres
// takes what encoding/json takes with two exceptions, and both are found here, before COMMIT: text
// that is not UTF-8 and text that is too long. A string that is not UTF-8 is refused, because
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

// decodeStored is decodeResult for a text that is in the table already. It returns an ErrInvalid with
// the text if that does not fit R.
func decodeStored[R any](text string) (value R, err error) {
	err = decodeResult([]byte(text), &value)
	if err == nil && !fitsNothing[R](value, text) {
		return value, nil
	}
	return value, &InvalidError{What: "result", Reason: "is recorded, because the call ran, and does not fit the caller's type", Stored: json.RawMessage(text), Err: errors.Unwrap(err)}
}

// fitsNothing reports whether none of the names of a stored object is a field of the struct R, or of
// the struct that R points to. encoding/json decodes such an object into a zero value without an
// error: a renamed, nested or unrelated type would be answered with blanks.
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

// decodesItself reports whether a type has a method by which encoding/json decodes it.
func decodesItself(t reflect.Type) bool {
	_, v1 := reflect.PointerTo(t).MethodByName("UnmarshalJSON")
	_, v2 := reflect.PointerTo(t).MethodByName("UnmarshalJSONFrom")
	return v1 || v2
}

// decodeResult reads a recorded text into a caller's own value, whatever was in
// it before.
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
