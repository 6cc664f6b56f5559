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
			"users/a: expected to change, did not",
			"users/c: changed, not expected to",
		}},
		{"Values", `{"a": {"n": 1, "s": {"t": "x"}, "l": [1, 2], "m": [3]}}`, `{"a": {"n": 2, "s": {"t": "y"}, "l": [1, 3], "m": [3, 3]}}`, []string{
			"users/a.l[1]: expected 2, got 3",
			"users/a.m: expected [3], got [3,3]",
			"users/a.n: expected 1, got 2",
			`users/a.s.t: expected "x", got "y"`,
		}},
		{"Keys", `{"a": {"gone": null, "same": 1}}`, `{"a": {"same": 1, "new": false}}`, []string{
			"users/a.gone: expected null, is absent",
			"users/a.new: expected to be absent, got false",
		}},
		{"Kinds", `{"a": {"o": {}, "l": [], "n": null}}`, `{"a": {"o": [], "l": {}, "n": {}}}`, []string{
			"users/a.l: expected [], got {}",
			"users/a.n: expected null, got {}",
			"users/a.o: expected {}, got []",
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
