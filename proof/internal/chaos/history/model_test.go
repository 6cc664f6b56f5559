package history

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// TestModel holds the model to short histories whose verdict is plain.
func TestModel(t *testing.T) {
	t.Parallel()
	op := func(variant int, out output, call, ret int64) porcupine.Operation {
		return porcupine.Operation{Input: input{"k", variant}, Output: out, Call: call, Return: ret}
	}
	saw := func(run int64) output { return output{told, run} }
	for name, tt := range map[string]struct {
		right bool
		ops   []porcupine.Operation
	}{
		"Replay":               {true, []porcupine.Operation{op(0, saw(1), 0, 1), op(0, saw(1), 2, 3)}},
		"TwoAnswers":           {false, []porcupine.Operation{op(0, saw(1), 0, 1), op(0, saw(2), 2, 3)}},
		"TwoAnswersAtOnce":     {false, []porcupine.Operation{op(0, saw(1), 0, 5), op(0, saw(2), 1, 4)}},
		"Reused":               {true, []porcupine.Operation{op(0, saw(1), 0, 1), op(1, output{kind: reused}, 2, 3)}},
		"ReusedFirst":          {false, []porcupine.Operation{op(1, output{kind: reused}, 0, 1), op(0, saw(1), 2, 3)}},
		"ReusedAtOnce":         {true, []porcupine.Operation{op(1, output{kind: reused}, 0, 3), op(0, saw(1), 1, 2)}},
		"OthersAnswer":         {false, []porcupine.Operation{op(0, saw(1), 0, 1), op(1, saw(1), 2, 3)}},
		"UnknownCameThrough":   {true, []porcupine.Operation{op(0, output{kind: unknown}, 0, math.MaxInt64), op(0, saw(1), 2, 3)}},
		"UnknownOfAnother":     {true, []porcupine.Operation{op(1, output{kind: unknown}, 0, math.MaxInt64), op(0, output{kind: reused}, 2, 3)}},
		"UnknownCannotBeTwice": {false, []porcupine.Operation{op(0, output{kind: unknown}, 0, math.MaxInt64), op(0, saw(1), 2, 3), op(0, saw(2), 4, 5)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong, err := check(tt.ops)
			require.NoError(t, err)
			require.Equal(t, tt.right, wrong == 0)
		})
	}
}
