package history

import (
	"errors"

	"github.com/anishathalye/porcupine"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// op is an operation on the record of a key.
type op struct {
	kind    kind
	run     int64
	variant int // of the arguments
}

type kind string

const (
	isSet   kind = "is set by"          // a committed run
	isFreed kind = "is freed of"        // Reset, or the record may be forgotten
	answers kind = "answers with"       // another call
	refuses kind = "refuses, as it has" // a call with other arguments
)

// state is the record of a key. Run is 0 without a record.
type state struct {
	run     int64
	variant int
}

// model is a register that keeps its first result until it is freed.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, _ any) (bool, any) { return s.(state).step(in.(op)) },
}

func (s state) step(o op) (possible bool, next state) {
	switch o.kind {
	case isSet:
		return s.run == 0, state{o.run, o.variant}
	case isFreed:
		return s.run == o.run, state{}
	case answers:
		return s == state{o.run, o.variant}, s
	default:
		return s.run != 0 && s.variant != o.variant, s
	}
}

// history is the operations on the record of a key.
type history []porcupine.Operation

func (h *history) add(o op, from, to int64) {
	*h = append(*h, porcupine.Operation{ClientId: len(*h), Input: o, Call: from, Return: to})
}

// possible reports whether a register could have this history, and otherwise how far it could.
func (h history) possible() (ok bool, until []porcupine.Operation, err error) {
	result, info := porcupine.CheckOperationsVerbose(model, h, lab.Patience)
	if result == porcupine.Unknown {
		return false, nil, errors.New("a history could not be checked in time")
	}
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(until) {
			until = order
		}
	}
	return result == porcupine.Ok, until[max(0, len(until)-3):], nil
}
