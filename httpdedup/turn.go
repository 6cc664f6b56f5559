package httpdedup

import (
	"net/http"
	"strconv"

	"github.com/tooldedup/dedup"
)

const turnHeader = "Agent-Turn"

// turn is the message of a model that a request comes from.
type turn struct {
	session string
	number  int
}

// parseTurn reads the Agent-Turn of a request from all its header lines, nil where there
// is none: the session as a string, and the number of the model's message in it as the
// parameter turn, from 1.
func parseTurn(lines []string) (*turn, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	t := &turn{}
	problem := ""
	if len(lines) == 1 {
		t.session, problem = parseItem(lines[0], func(name, value string) {
			if name == "turn" {
				var err error
				if t.number, err = strconv.Atoi(value); err != nil {
					t.number = 0
				}
			}
		})
	}
	if problem != "" || len(lines) > 1 || t.session == "" || t.number < 1 {
		return nil, refuse(kindInvalidRequest, `The Agent-Turn is malformed. Send one: the session in quotes, and the number of the model's message in it from 1, such as "conversation 17"; turn=4.`)
	}
	return t, nil
}

// key is that of the request, by what it asks for. The host is only compared, so that a
// retry under another name of the service meets the record.
func (t *turn) key(tool string, r *http.Request, body []byte) (string, error) {
	args, err := requestArgs(r, body, false)
	if err != nil {
		return "", err
	}
	return dedup.KeyFromToolCallArgs(t.session, t.number, tool, args, 0)
}
