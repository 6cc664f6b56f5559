package world_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/world"
)

func TestDiffState(t *testing.T) {
	t.Parallel()
	state := func(users string) recording.State {
		table := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal([]byte(users), &table))
		return recording.State{"users": table}
	}
	for _, tt := range []struct {
		name, want, got string
		lines           []string
	}{
		{"Equal", `{"a": {"x": 1.0, "y": [1, {"z": null}]}}`, `{"a":{"y":[1,{"z":null}],"x":1}}`, nil},
		{"Rows", `{"a": {}, "b": {}}`, `{"b": {}, "c": {}}`, []string{
			"users/a: expected {}, got (absent)",
			"users/c: expected (absent), got {}",
		}},
		{"Fields", `{"a": {"n": 1, "s": {"t": "x"}, "gone": null, "m": [3]}}`, `{"a": {"n": 2, "s": {"t":  "y"}, "new": false, "m": [3]}}`, []string{
			"users/a.gone: expected null, got (absent)",
			"users/a.n: expected 1, got 2",
			"users/a.new: expected (absent), got false",
			`users/a.s: expected {"t":"x"}, got {"t":"y"}`,
		}},
		{"Deleted", `{"a": {"x": 1}}`, `{"a": null}`, []string{`users/a: expected {"x":1}, got null`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.lines, world.DiffState(state(tt.want), state(tt.got)))
		})
	}
	require.Empty(t, world.DiffState(nil, recording.State{}))
	require.Empty(t, world.DiffState(recording.State{"users": {}}, nil))
}
