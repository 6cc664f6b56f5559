package httpdedup

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// explain makes of any error of a call what the client is told. The error itself is only told to
// OnError, where that is more.
func (m *Middleware) explain(r *http.Request, inv tool.Invocation, err error) *refusal {
	return m.explainIn(m.words(), r, inv, inv.Tool, err)
}

// explainIn is explain in words that the tool's clients know. Its records are of the name recorded.
func (m *Middleware) explainIn(words door.Words, r *http.Request, inv tool.Invocation, recorded string, err error) *refusal {
	report := func(err error) {
		m.opts.OnError(r.WithContext(context.WithValue(r.Context(), door.InvocationKey{}, inv)), err)
	}
	var ready *refusal
	var scope *ScopeError
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &scope):
		refused := refuse(kindNoScope, "Nobody could be told on whose behalf the request comes. Send it with valid credentials.")
		if refused.Status = scope.status(); refused.Status >= http.StatusInternalServerError {
			report(scope)
		}
		if scope.Challenge != "" {
			refused = refused.with("Www-Authenticate", scope.Challenge)
		}
		return refused
	case errors.Is(err, errRunOnce):
		return m.later(words, door.Unavailable)
	}
	f := door.FailureOf(recorded, err)
	refused := refuse(kinds[f.Code], words.Text(f))
	switch f.Code {
	case door.KeyReused:
		refused.Status, refused.Changed = m.opts.ReusedStatus, f.Record.Changed
	case door.Expired, door.ArgumentsInvalid:
	case door.Refused:
		refused.Detail, refused.Code = f.Refusal.Message, f.Refusal.Code
	case door.KeyRequired, door.KeyInvalid: // of the arguments: keyOf has found none at fault
		return refuse(kindInvalidBody, words.Text(f))
	case door.InFlight, door.OutcomeUnknown, door.Unavailable, door.Timeout:
		return m.later(words, f.Code)
	default:
		report(err)
		return refuse(kindInternal, words.Text(door.Failure{Code: door.Failed}))
	}
	return refused
}

// words are those that clients of HTTP know.
func (m *Middleware) words() door.Words {
	return door.Words{
		Arguments: "contents", Same: "with the same Idempotency-Key and the same contents",
		New: "send it with a new Idempotency-Key", RetryAfter: m.opts.RetryAfter,
	}
}

// later asks the client to come again.
func (m *Middleware) later(words door.Words, code door.Code) *refusal {
	return refuse(kinds[code], words.Text(door.Failure{Code: code})).
		with("Retry-After", strconv.Itoa(door.Seconds(m.opts.RetryAfter)))
}

// invalidBody passes on why a JSON body cannot be compared. It names positions, and never what
// stands there.
func invalidBody(err error) *refusal {
	invalid := new(dedup.InvalidError)
	errors.As(err, &invalid)
	return refuse(kindInvalidBody, "The body is no JSON that can be told from other JSON: its contents "+invalid.Reason+".")
}
