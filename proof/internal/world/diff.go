package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/tooldedup/dedup/internal/recording"
)

// absent is shown for a row or a value that is not there.
const absent = "(absent)"

// DiffState says in words, in a fixed order, where two states differ: one line a row that is missing or too
// much, and one line a field of a document that is not the same. It is empty where they are equal.
func DiffState(expected, got recording.State) (lines []string) {
	for _, table := range eitherKey(expected, got) {
		for _, id := range eitherKey(expected[table], got[table]) {
			path := table + "/" + id
			want, wanted := expected[table][id]
			have, found := got[table][id]
			if !wanted {
				want = json.RawMessage(absent)
			}
			if !found {
				have = json.RawMessage(absent)
			}
			lines = append(lines, diffDocument(path, want, have)...)
		}
	}
	return lines
}

func diffDocument(path string, want, have json.RawMessage) (lines []string) {
	if recording.EqualJSON(want, have) {
		return nil
	}
	var wantFields, haveFields map[string]json.RawMessage
	if json.Unmarshal(want, &wantFields) != nil || json.Unmarshal(have, &haveFields) != nil || wantFields == nil || haveFields == nil {
		return []string{fmt.Sprintf("%s: expected %s, got %s", path, show(want), show(have))}
	}
	for _, name := range eitherKey(wantFields, haveFields) {
		if !recording.EqualJSON(wantFields[name], haveFields[name]) {
			lines = append(lines, fmt.Sprintf("%s.%s: expected %s, got %s", path, name, show(wantFields[name]), show(haveFields[name])))
		}
	}
	return lines
}

func show(value json.RawMessage) string {
	var text bytes.Buffer
	if value == nil || json.Compact(&text, value) != nil {
		return absent
	}
	return text.String()
}

// eitherKey returns the keys of two maps in order.
func eitherKey[V any](a, b map[string]V) []string {
	both := maps.Clone(a)
	if both == nil {
		both = map[string]V{}
	}
	maps.Copy(both, b)
	return slices.Sorted(maps.Keys(both))
}
