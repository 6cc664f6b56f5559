package httpdedup

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// explain makes of any error of a call of a tool what the client is told. The error itself is only
// told to OnError, where that is more.
func (m *Middleware) explain(r *http.Request, tool string, err error) *refusal {
	var ready *refusal
	var scope *ScopeError
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &scope):
		refused := refuse(kindNoScope, "Nobody could be told on whose behalf the request comes. Send it with valid credentials.")
		if refused.Status = scope.status(); refused.Status >= http.StatusInternalServerError {
			m.opts.OnError(r, scope)
		}
		if scope.Challenge != "" {
			refused = refused.with("Www-Authenticate", scope.Challenge)
		}
		return refused
	case errors.Is(err, errRunOnce):
		return m.later(door.Unavailable)
	}
	f := door.FailureOf(tool, err)
	refused := refuse(kinds[f.Code], m.words().Text(f))
	switch f.Code {
	case door.KeyReused:
		refused.Status, refused.Changed = m.opts.ReusedStatus, f.Record.Changed
	case door.Expired:
	case door.Refused:
		refused.Detail, refused.Code = f.Refusal.Message, f.Refusal.Code
	case door.ArgumentsInvalid:
		return invalidBody(err)
	case door.InFlight, door.OutcomeUnknown, door.Unavailable, door.Timeout:
		return m.later(f.Code)
	default:
		m.opts.OnError(r, err)
		return refuse(kindInternal, m.words().Text(door.Failure{Code: door.Failed}))
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
func (m *Middleware) later(code door.Code) *refusal {
	return refuse(kinds[code], m.words().Text(door.Failure{Code: code})).
		with("Retry-After", strconv.Itoa(door.Seconds(m.opts.RetryAfter)))
}

// invalidBody passes on where dedup, or an external tool, found fault with a body; it names positions,
// and never what stands there.
func invalidBody(err error) *refusal {
	invalid := new(dedup.InvalidError)
	errors.As(err, &invalid)
	subject := "The body is no JSON that can be told from other JSON: its contents "
	if invalid.Field == "in" {
		subject = "The body "
	}
	return refuse(kindInvalidBody, subject+invalid.Reason+".")
}
