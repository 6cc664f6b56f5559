package world

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/tooldedup/dedup/internal/recording"
)

// DiffState says in words, in a fixed order, where two states differ: one line a row that is missing or too much,
// and one line a field of a document that is not the same. It is empty where they are equal.
func DiffState(expected, got recording.State) (lines []string) {
	want, have := flat(expected), flat(got)
	both := maps.Clone(want)
	maps.Copy(both, have)
	for _, path := range slices.Sorted(maps.Keys(both)) {
		x, wanted := want[path]
		y, found := have[path]
		if wanted != found || !reflect.DeepEqual(x, y) {
			lines = append(lines, fmt.Sprintf("%s: expected %s, got %s", path, show(x, wanted), show(y, found)))
		}
	}
	return lines
}

func show(value any, there bool) string {
	text, err := json.Marshal(value)
	if !there || err != nil {
		return "(absent)"
	}
	return string(text)
}

// flat has the values of a state by their paths: those of a document's fields, and what a row is.
func flat(s recording.State) map[string]any {
	values := map[string]any{}
	for table, rows := range s {
		for id, doc := range rows {
			path := table + "/" + id
			var value any
			if json.Unmarshal(doc, &value) != nil {
				value = string(doc)
			}
			fields, ok := value.(map[string]any)
			if ok {
				value = "a document"
			}
			values[path] = value
			for name, field := range fields {
				values[path+"."+name] = field
			}
		}
	}
	return values
}
