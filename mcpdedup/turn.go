package mcpdedup

import (
	"math"

	"github.com/tooldedup/dedup"
)

// MetaTurn is the member of a request's _meta that says which message of a model the
// call comes from: {"session": "conversation 17", "turn": 4}. The turn counts the
// model's messages in the session, from 1. A call that needs a key and comes without one, or with
// one that names no single call, has the key of its turn, its tool and its arguments.
const MetaTurn = "io.github.tooldedup/turn"

// turn is the message of a model that a call comes from.
type turn struct {
	session string
	number  int
}

// turnOf reads the turn in the _meta of a call, nil where there is none.
func turnOf(meta map[string]any) (*turn, error) {
	value, ok := meta[MetaTurn]
	if !ok {
		return nil, nil
	}
	members, _ := value.(map[string]any)
	session, _ := members["session"].(string)
	number, _ := members["turn"].(float64)
	if session == "" || number < 1 || number > math.MaxInt32 || number != math.Trunc(number) {
		return nil, &takeError{CodeKeyInvalid, `The value of _meta["` + MetaTurn + `"] must be an object of session, a text, and turn, a whole number from 1.`}
	}
	return &turn{session, int(number)}, nil
}

// namesNoCall reports whether what stands where a key belongs names no single call: null,
// an empty text, "null", "None" or the tool's name.
func namesNoCall(value any, tool string) bool {
	key, ok := value.(string)
	return value == nil || ok && !dedup.UsableToolCallID(key, tool)
}

// clientKey returns the key that a client's value stands for, none where it names no
// single call and the turn makes the key.
func (t *turn) clientKey(where, tool string, value any) (string, error) {
	switch {
	case !namesNoCall(value, tool):
		return keyOf(where, value)
	case t != nil:
		return "", nil
	case value == nil || value == "":
		return keyOf(where, value) // which says so
	default:
		return "", &takeError{CodeKeyInvalid, "The key " + where + " is null, None or the name of the tool, and names no single call."}
	}
}

// keyByTurn gives a call without a key that of its turn, if it came with one.
func (g *guard) keyByTurn(t *taken) error {
	if t.key != "" || t.turn == nil {
		return nil
	}
	compared, err := g.compared(t.args)
	if err != nil {
		return err
	}
	t.key, err = dedup.KeyFromToolCallArgs(t.turn.session, t.turn.number, g.info.Name, compared, 0)
	return err
}
