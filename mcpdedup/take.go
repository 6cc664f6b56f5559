package mcpdedup

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// maxKeyLength is how many characters a client's key may have, counted as
// maxLength of its schema does.
const maxKeyLength = 255

// taken is a call without what was added to its tool's arguments.
type taken struct {
	args json.RawMessage
	key  string
	turn door.Turn
}

// take takes the added argument out of a call, and reads a key that is an argument of
// the tool's own. What it returns beside an error is of no use.
func (o *offered) take(params *mcp.CallToolParamsRaw) (t taken, err error) {
	var members map[string]json.RawMessage
	t.args = params.Arguments
	if o.keyArgument != "" {
		if t.args, members, err = takeMembers(params.Arguments, o.keyArgument); err != nil {
			return t, err
		}
	}
	if o.ownKey {
		t.args = params.Arguments
	}
	var badTurn error
	t.turn, badTurn = turnOf(params.Meta)
	value, inMeta := params.Meta[MetaKey]
	raw, inArgument := members[o.keyArgument]
	switch {
	case inMeta && !(inArgument && namesNoCall(value, params.Name)):
		t.key, err = clientKey(t.turn, `in _meta["`+MetaKey+`"]`, params.Name, value)
	case inArgument:
		var value any
		_ = json.Unmarshal(raw, &value) // it was found valid
		t.key, err = clientKey(t.turn, "in the argument "+o.keyArgument, params.Name, value)
	}
	if badTurn != nil && t.key == "" && len(o.info.Key) == 0 { // beside a key it does no harm
		err = badTurn
	}
	return t, err
}

// turnOf reads the turn in the _meta of a call, the zero one if there is none.
func turnOf(meta map[string]any) (t door.Turn, err error) {
	value := meta[MetaTurn]
	if value == nil { // null as well: a client's field that is not set
		return t, nil
	}
	members, _ := value.(map[string]any)
	number, _ := members["turn"].(float64)
	t.Session, _ = members["session"].(string)
	if number == math.Trunc(number) && number <= math.MaxInt32 {
		t.Number = int(number)
	}
	if !t.Valid() {
		return door.Turn{}, notMade(door.KeyInvalid, `The value of _meta["`+MetaTurn+`"] must be an object of session, a text, and turn, a whole number from 1.`, nil)
	}
	return t, nil
}

// namesNoCall reports whether what stands where a key belongs names no single call: null,
// an empty text, "null", "None" or the tool's name.
func namesNoCall(value any, tool string) bool {
	key, ok := value.(string)
	return value == nil || ok && !dedup.UsableToolCallID(key, tool)
}

// clientKey returns the key that a client's value stands for, none where it names no
// single call and the turn makes the key. A text within the limit
// of characters and beyond that of bytes stands for the key derived from it.
func clientKey(t door.Turn, where, tool string, value any) (string, error) {
	key, ok := value.(string)
	fault := ""
	switch {
	case t.Valid() && namesNoCall(value, tool):
		return "", nil
	case !ok:
		fault = "is not a string"
	case key == "":
		fault = "is empty"
	case namesNoCall(value, tool):
		fault = door.NamesNoCall
	case utf8.RuneCountInString(key) > maxKeyLength:
		fault = fmt.Sprintf("is longer than %d characters", maxKeyLength)
	case !utf8.ValidString(key), strings.ContainsRune(key, utf8.RuneError):
		// What decoders put in place of broken text would make one key of many.
		fault = "is not valid Unicode text"
	case strings.ContainsFunc(key, unicode.IsControl):
		fault = "has a control character"
	case len(key) > door.MaxKey:
		return dedup.KeyFromIntent(key)
	default:
		return key, nil
	}
	return "", notMade(door.KeyInvalid, "The key "+where+" "+fault+".", nil)
}
