package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// input is a call of a key, with one of several arguments.
type input struct {
	key     string
	variant int
}

// output is what the caller was told.
type output struct {
	kind outcome
	run  int64 // told is set
}

type outcome int

const (
	told    outcome = iota // the run of the effect
	reused                 // the key was used with other arguments
	unknown                // nothing: it may have taken effect
)

// state is the record of one key.
type state struct {
	set     bool
	variant int
	// run is 0 where the caller that set it was told nothing.
	run int64
}

// model is a register of which the first result wins, for ever.
var model = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		keys := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(input).key
			keys[key] = append(keys[key], op)
		}
		partitions := make([][]porcupine.Operation, 0, len(keys))
		for _, ops := range keys {
			partitions = append(partitions, ops)
		}
		return partitions
	},
	Init: func() []any { return []any{state{}} },
	Step: func(s, in, out any) []any { return step(s.(state), in.(input), out.(output)) },
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%s/%d: %d %d", in.(input).key, in.(input).variant, out.(output).kind, out.(output).run)
	},
}).ToModel()

// step returns what a key's record may be after a call that got an answer.
func step(s state, in input, out output) []any {
	switch {
	case out.kind == unknown && !s.set:
		return []any{s, state{set: true, variant: in.variant}}
	case out.kind == unknown:
		return []any{s}
	case out.kind == reused && s.set && s.variant != in.variant:
		return []any{s}
	case out.kind == told && (!s.set || s.variant == in.variant && (s.run == 0 || s.run == out.run)):
		return []any{state{true, in.variant, out.run}}
	default:
		return nil
	}
}
