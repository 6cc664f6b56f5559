package world

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tooldedup/dedup/internal/recording"
)

// DiffState says in words, in a fixed order, where two states differ: one line
// a row that is missing or too much, and one line a value that is not the
// same. It is empty where they are equal.
func DiffState(expected, got recording.State) []string {
	var lines []string
	for _, table := range unionKeys(expected, got) {
		for _, id := range unionKeys(expected[table], got[table]) {
			path := table + "/" + id
			want, wanted := expected[table][id]
			have, found := got[table][id]
			switch {
			case !found:
				lines = append(lines, path+": expected to change, did not")
			case !wanted:
				lines = append(lines, path+": changed, not expected to")
			default:
				lines = append(lines, diffDoc(path, want, have)...)
			}
		}
	}
	return lines
}

func diffDoc(path string, want, have json.RawMessage) []string {
	var x, y any
	if err := json.Unmarshal(want, &x); err != nil {
		return []string{fmt.Sprintf("%s: expected document: %v", path, err)}
	}
	if err := json.Unmarshal(have, &y); err != nil {
		return []string{fmt.Sprintf("%s: document: %v", path, err)}
	}
	return diffValue(nil, path, x, y)
}

// diffValue walks two values at once and appends a line wherever they part.
func diffValue(lines []string, path string, want, have any) []string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			break
		}
		for _, key := range unionKeys(want, have) {
			lines = diffEntry(lines, path+"."+key, want, have, key)
		}
		return lines
	case []any:
		have, ok := have.([]any)
		if !ok || len(want) != len(have) {
			break
		}
		for i := range want {
			lines = diffValue(lines, path+"["+strconv.Itoa(i)+"]", want[i], have[i])
		}
		return lines
	default:
		if want == have {
			return lines
		}
	}
	return append(lines, fmt.Sprintf("%s: expected %s, got %s", path, show(want), show(have)))
}

func diffEntry(lines []string, path string, want, have map[string]any, key string) []string {
	expected, wanted := want[key]
	got, found := have[key]
	switch {
	case !found:
		return append(lines, fmt.Sprintf("%s: expected %s, is absent", path, show(expected)))
	case !wanted:
		return append(lines, fmt.Sprintf("%s: expected to be absent, got %s", path, show(got)))
	}
	return diffValue(lines, path, expected, got)
}

func show(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

func unionKeys[V any](a, b map[string]V) []string {
	keys := slices.Collect(maps.Keys(a))
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
