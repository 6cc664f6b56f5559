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

// maxKeyLength is the maximum length of a client's key, in characters, as maxLength of a schema
// counts them.
const maxKeyLength = 255

// taken is a call without the argument for the key.
type taken struct {
	args json.RawMessage
	key  string
	turn door.Turn
}

// take removes the added argument from a call, or reads the key from the tool's own argument. With
// an error, t must not be used.
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
		_ = json.Unmarshal(raw, &value) // valid, as takeMembers found
		t.key, err = clientKey(t.turn, "in the argument "+o.keyArgument, params.Name, value)
	}
	if badTurn != nil && t.key == "" && len(o.info.Key) == 0 { // with a key it does not matter
		err = badTurn
	}
	return t, err
}

// turnOf reads the turn in the _meta of a call. It returns the zero Turn if there is none.
func turnOf(meta map[string]any) (t door.Turn, err error) {
	value := meta[MetaTurn]
	if value == nil { // null is a client's field that is not set
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

// namesNoCall reports whether a key names no single call: null, an empty text, "null", "None" or
// the tool's name.
func namesNoCall(value any, tool string) bool {
	key, ok := value.(string)
	return value == nil || ok && !dedup.UsableToolCallID(key, tool)
}

// clientKey returns the key for a client's value. It returns "" if the value names no single call
// and there is a turn to make the key. A text that is too long in bytes, but not in characters, is
// replaced by a key derived from it.
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
		// Decoders replace broken text, so many keys would become one.
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
