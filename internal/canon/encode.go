package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
)

var (
	errTooLarge = errors.New("its JSON text has more bytes than may be")
	errTooDeep  = errors.New("it nests too deep")
	errNoUTF8   = errors.New("it has a string that is not valid UTF-8; encode binary data as []byte or base64")
)

// Encode returns the JSON text of a result, and an error where encoding/json would leave a
// part of it out, or replace it, without one. It refuses a value that refers to itself, and
// does not begin to write one that must have more than limit bytes. With escapeHTML it writes
// <, > and & as escapes.
func Encode(result any, limit int, escapeHTML bool) ([]byte, error) {
	return resultLosses.encode(result, limit, escapeHTML)
}

func (c *lossChecker) encode(value any, limit int, escapeHTML bool) ([]byte, error) {
	value, err := c.lossless(value, limit)
	if err != nil {
		return nil, err
	}
	text, err := marshal(value, escapeHTML)
	if err != nil {
		return nil, err
	}
	// Marshal replaces bytes that are no UTF-8 by U+FFFD: as an escape with
	// encoding/json as it always was, raw with the one built on version 2. The
	// value may also hold that character by right, so it has the last word.
	replaced := bytes.Contains(text, []byte(`\ufffd`)) || bytes.Contains(text, []byte("\ufffd"))
	if replaced && hasInvalidString(value) {
		return nil, errNoUTF8
	}
	return text, nil
}

func marshal(value any, escapeHTML bool) ([]byte, error) {
	if escapeHTML {
		return json.Marshal(value)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// IsTooLarge reports whether Encode has refused a value because of the limit.
func IsTooLarge(err error) bool { return err == errTooLarge }

// Encodes reports whether encoding/json encodes a field of a struct, or there is nothing in
// it to encode.
func Encodes(t reflect.Type) bool { return len(fieldsOf(t).encoded) > 0 || holdsNothing(t) }
