package deduptest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/tooldedup/dedup"
)

var errWholeResult = errors.New("the answer is a dedup.Result, which tells each caller something else; Tool.Call must return its Value")

// canonical returns the JSON of an answer, the same for equal answers: members are sorted, and
// numbers keep their text.
func canonical(answer any) (string, error) {
	if isResult(reflect.TypeOf(answer)) {
		return "", errWholeResult
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return "", fmt.Errorf("the answer is no JSON: %w", err)
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return "", fmt.Errorf("the answer is no JSON: %w", err)
	}
	text, err = json.Marshal(value)
	return string(text), err
}

// isResult reports whether t is a dedup.Result of any type.
func isResult(t reflect.Type) bool {
	if t == nil {
		return false
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == reflect.TypeFor[dedup.Deduper]().PkgPath() && strings.HasPrefix(t.Name(), "Result[")
}
