package httpdedup

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// keptHeader tells until when an answer is kept. It is this package's own header.
const keptHeader = "Dedup-Kept-Until"

// keyOf returns the key of a call of a tool, or, if the key is unusable, the turn that makes the
// key. If the key is optional both may be empty. A malformed turn is ignored if there is a key.
func keyOf(header http.Header, tool string, optional bool) (key string, turn door.Turn, err error) {
	lines := header[door.KeyHeader]
	if key, err = parseKey(lines); err != nil {
		return "", turn, err
	}
	turn, err = parseTurn(header[door.TurnHeader])
	switch {
	case dedup.UsableToolCallID(key, tool):
		return key, turn, nil
	case err == nil && turn == door.Turn{} && !(optional && len(lines) == 0):
		err = noKey(lines, key)
	}
	return "", turn, err
}

// parseKey reads the Idempotency-Key from all its header lines, with door.ReadHeader. The key is
// empty if the header is missing or empty. Parameters have no meaning yet and are ignored.
func parseKey(lines []string) (string, error) {
	switch {
	case len(lines) == 0:
		return "", nil
	case len(lines) > 1:
		return "", invalidKey("occurs %d times; send one", len(lines))
	}
	key, _, problem := door.ReadHeader(lines[0])
	switch {
	case problem != "":
		return "", invalidKey("%s", problem)
	case len(key) > door.MaxKey: // dedup checks it too, but only after the body was read
		return "", invalidKey("is %d bytes long, and %d is the most; send its hash", len(key), door.MaxKey)
	}
	return key, nil
}

// noKey refuses a request without a usable key. lines are the lines of its header.
func noKey(lines []string, key string) error {
	switch {
	case len(lines) == 0:
		return refuse(kindMissingKey, "Send an Idempotency-Key header: a string in quotes that is made once for this action, such as a UUID, and sent again unchanged with every retry of it.")
	case key == "":
		return invalidKey("is empty")
	default:
		return invalidKey(door.NamesNoCall)
	}
}

// parseTurn reads the Agent-Turn from all its header lines: the session as a string, and the number
// of the model's message in it, from 1, as the parameter turn. It returns the zero Turn without the
// header.
func parseTurn(lines []string) (door.Turn, error) {
	if len(lines) == 0 {
		return door.Turn{}, nil
	}
	session, params, problem := door.ReadHeader(lines[0])
	t := door.Turn{Session: session}
	for param := range strings.SplitSeq(params, ";") {
		if name, value, _ := strings.Cut(strings.TrimSpace(param), "="); name == "turn" {
			t.Number, _ = strconv.Atoi(value) // 0 is not a turn
		}
	}
	if problem != "" || len(lines) > 1 || !t.Valid() {
		return door.Turn{}, refuse(kindInvalidRequest, `The Agent-Turn is malformed. Send one: the session in quotes, and the number of the model's message in it from 1, such as "conversation 17"; turn=4.`)
	}
	return t, nil
}

func invalidKey(format string, args ...any) error {
	return refuse(kindInvalidKey, "The Idempotency-Key "+fmt.Sprintf(format, args...)+
		`. Send one string of 1 to 255 visible ASCII characters in quotes, in which \" and \\ are the only escapes.`)
}
