package httpdedup

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tooldedup/dedup/internal/door"
)

const (
	keyHeader  = "Idempotency-Key"
	turnHeader = "Agent-Turn"
	// keptHeader says until when an answer is kept. It is this package's own.
	keptHeader = "Dedup-Kept-Until"
)

// parseKey reads the Idempotency-Key of a request from all its header lines. It is empty
// where the header is, and where there is none.
//
// The draft says: an Item of Structured Fields (RFC 9651) that is a String. So
// "…" in quotes, with \" and \\ as its only escapes, and parameters after it that
// mean nothing yet and are ignored. Most clients send the key bare all the same;
// that is taken too, and is the same key as in quotes. What is bare ends at white
// space or a semicolon and has no comma, quote or backslash: a proxy joins two
// headers with a comma, and two keys must not become one.
func parseKey(lines []string) (string, error) {
	switch {
	case len(lines) == 0:
		return "", nil
	case len(lines) > 1:
		return "", invalidKey("occurs %d times; send one", len(lines))
	}
	key, problem := parseItem(lines[0], func(string, string) {})
	switch {
	case problem != "":
		return "", invalidKey("%s", problem)
	case len(key) > door.MaxKey: // dedup says so too, when the body was read
		return "", invalidKey("is %d bytes long, and %d is the most; send its hash", len(key), door.MaxKey)
	}
	return key, nil
}

// noKey refuses a request for want of a key. lines are what its header has.
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

// parseTurn reads the Agent-Turn of a request from all its header lines, nil where there
// is none: the session as a string, and the number of the model's message in it as the
// parameter turn, from 1.
func parseTurn(lines []string) (*door.Turn, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	t, problem := &door.Turn{}, ""
	t.Session, problem = parseItem(lines[0], func(name, value string) {
		if name == "turn" {
			t.Number, _ = strconv.Atoi(value) // 0 is no turn
		}
	})
	if problem != "" || len(lines) > 1 || !t.Valid() {
		return nil, refuse(kindInvalidRequest, `The Agent-Turn is malformed. Send one: the session in quotes, and the number of the model's message in it from 1, such as "conversation 17"; turn=4.`)
	}
	return t, nil
}

// keyOfTurn is the key of a request by what it asks for. The host is only compared, so that a
// retry under another name of the service meets the record.
func keyOfTurn(t *door.Turn, tool string, r *http.Request, body []byte) (string, error) {
	args, err := requestArgs(r, body, false)
	if err != nil {
		return "", err
	}
	return t.Key(tool, args)
}

// parseItem reads a string, in quotes or bare. It calls param for each parameter behind it
// whose value is not a string in quotes.
func parseItem(line string, param func(name, value string)) (text, problem string) {
	line = strings.Trim(line, " \t")
	if line == "" {
		return "", ""
	}
	cut := cutBare
	if line[0] == '"' {
		cut = cutQuoted
	}
	text, rest, problem := cut(line)
	if problem == "" {
		problem = readParams(rest, param)
	}
	return text, problem
}

func invalidKey(format string, args ...any) error {
	return refuse(kindInvalidKey, "The Idempotency-Key "+fmt.Sprintf(format, args...)+
		`. Send one string of 1 to 255 visible ASCII characters in quotes, in which \" and \\ are the only escapes.`)
}

// cutQuoted reads a String of Structured Fields and returns what follows it.
func cutQuoted(text string) (s, rest, problem string) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], ""
		case c < ' ' || c > '~':
			return "", "", fmt.Sprintf("has a character at byte %d that is not visible ASCII", i)
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		default:
			return "", "", fmt.Sprintf("has a backslash at byte %d that escapes nothing", i)
		}
	}
	return "", "", "lacks its closing quote"
}

// cutBare reads a key that is not in quotes.
func cutBare(text string) (s, rest, problem string) {
	end := len(text)
	if i := strings.IndexAny(text, "; \t"); i >= 0 {
		end = i
	}
	for i := range end {
		switch c := text[i]; {
		case c < ' ' || c > '~':
			return "", "", fmt.Sprintf("has a character at byte %d that is not visible ASCII", i)
		case c == ',' || c == '"' || c == '\\':
			return "", "", fmt.Sprintf("is not in quotes, and has a comma, a quote or a backslash at byte %d", i)
		}
	}
	return text[:end], text[end:], ""
}

// readParams says what is wrong with what follows a string. Parameters whose values are
// strings are read to know where they end, and ignored.
func readParams(rest string, param func(name, value string)) (problem string) {
	for rest != "" {
		if rest[0] != ';' {
			return "is followed by something that is no parameter"
		}
		name, tail := span(strings.TrimLeft(rest[1:], " "), isParamName)
		if name == "" || !isParamStart(name[0]) {
			return "has a parameter without a name"
		}
		value, assigned := strings.CutPrefix(tail, "=")
		switch {
		case !assigned:
		case strings.HasPrefix(value, `"`):
			if _, tail, problem = cutQuoted(value); problem != "" {
				return "has a parameter whose string is malformed"
			}
		case strings.HasPrefix(value, `%"`):
			if tail, problem = cutDisplay(value[2:]); problem != "" {
				return problem
			}
		default:
			if value, tail = span(value, isParamValue); value == "" {
				return "has a parameter without its value"
			}
			param(name, value)
		}
		rest = tail
	}
	return ""
}

// cutDisplay returns what follows a Display String of Structured Fields, whose
// escapes are a percent sign and two hex digits in lower case.
func cutDisplay(text string) (rest, problem string) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return text[i+1:], ""
		case c < ' ' || c > '~', c == '%' && (i+2 >= len(text) || !isLowerHex(text[i+1]) || !isLowerHex(text[i+2])):
			return "", "has a parameter whose string is malformed"
		}
	}
	return "", "has a parameter whose string is malformed"
}

// span cuts text after the bytes that are accepted.
func span(text string, accepted func(byte) bool) (head, tail string) {
	i := 0
	for i < len(text) && accepted(text[i]) {
		i++
	}
	return text[:i], text[i:]
}

func isParamStart(c byte) bool { return 'a' <= c && c <= 'z' || c == '*' }

func isLowerHex(c byte) bool { return 'a' <= c && c <= 'f' || '0' <= c && c <= '9' }

func isParamName(c byte) bool {
	return isParamStart(c) || '0' <= c && c <= '9' || strings.IndexByte("_-.", c) >= 0
}

// isParamValue accepts what numbers, tokens, bytes, booleans and dates are made of.
func isParamValue(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~:/=?@", c) >= 0
}
