package runner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool/runner"
)

func TestPutMeta(t *testing.T) {
	t.Parallel()
	type meta = map[string]any
	carried := dedup.KeyHash("k1")
	for name, test := range map[string]struct {
		key      string
		meta     meta
		want     meta
		conflict *runner.KeyConflictError
	}{
		"IntoNil":      {"k1", nil, meta{runner.MetaKey: "k1"}, nil},
		"IntoEmpty":    {"k1", meta{}, meta{runner.MetaKey: "k1"}, nil},
		"BesideOthers": {"k1", meta{"progressToken": 7}, meta{"progressToken": 7, runner.MetaKey: "k1"}, nil},
		"SameThere":    {"k1", meta{runner.MetaKey: "k1"}, meta{runner.MetaKey: "k1"}, nil},
		"NoKey":        {"", meta{"a": 1}, meta{"a": 1}, nil},
		"NoKeyNil":     {"", nil, nil, nil},
		"NoKeyThere":   {"", meta{runner.MetaKey: "k2"}, meta{runner.MetaKey: "k2"}, nil},
		"AnotherThere": {"k1", meta{runner.MetaKey: "k2"}, nil, &runner.KeyConflictError{There: dedup.KeyHash("k2"), Carried: carried}},
		"EmptyThere":   {"k1", meta{runner.MetaKey: ""}, nil, &runner.KeyConflictError{Carried: carried}},
		"NoString":     {"k1", meta{runner.MetaKey: 7}, nil, &runner.KeyConflictError{Carried: carried}},
		"Null":         {"k1", meta{runner.MetaKey: nil}, nil, &runner.KeyConflictError{Carried: carried}},
		"NotComparable": {"k1", meta{runner.MetaKey: []any{"k1"}}, nil,
			&runner.KeyConflictError{Carried: carried}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := len(test.meta)
			got, err := runner.PutMeta(runner.WithKey(t.Context(), test.key), test.meta)
			require.Len(t, test.meta, size, "the given map is not changed")
			if test.conflict != nil {
				var conflict *runner.KeyConflictError
				require.ErrorAs(t, err, &conflict)
				require.Contains(t, conflict.Where, runner.MetaKey)
				conflict.Where = ""
				require.Equal(t, test.conflict, conflict)
				require.Nil(t, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			if got != nil {
				got["mine"] = true
				require.Len(t, test.meta, size, "it is a copy")
			}
		})
	}
}
