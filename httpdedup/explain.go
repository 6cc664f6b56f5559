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

// explain turns an error of a call into the problem that the client gets. OnError gets the error
// itself if the problem hides a fault of the server.
func (m *Middleware) explain(r *http.Request, inv tool.Invocation, err error) *refusal {
	return m.explainIn(m.words(), r, inv, inv.Tool, err)
}

// explainIn is explain with other words for the client. recorded is the name that the tool's
// records have.
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
		refused := refuse(kindNoScope, "The caller of the request could not be identified. Send it with valid credentials.")
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
		shown, hidden := door.Disclose(f.Refusal)
		if refused.Detail, refused.Code = shown.Message, shown.Code; hidden {
			report(err)
		}
	case door.KeyRequired, door.KeyInvalid: // of the arguments: keyOf has checked the header
		return refuse(kindInvalidBody, words.Text(f))
	case door.InFlight, door.OutcomeUnknown, door.Unavailable, door.Timeout:
		return m.later(words, f.Code)
	default:
		report(err)
		return refuse(kindInternal, words.Text(door.Failure{Code: door.Failed}))
	}
	return refused
}

// words are the words that HTTP clients know.
func (m *Middleware) words() door.Words {
	return door.Words{
		Arguments: "contents", Same: "with the same Idempotency-Key and the same contents",
		New: "send it with a new Idempotency-Key", RetryAfter: m.opts.RetryAfter,
	}
}

// later returns a problem with Retry-After.
func (m *Middleware) later(words door.Words, code door.Code) *refusal {
	return refuse(kinds[code], words.Text(door.Failure{Code: code})).
		with("Retry-After", strconv.Itoa(door.Seconds(m.opts.RetryAfter)))
}

// invalidBody explains why a JSON body cannot be compared. It gives positions, never the text
// there.
func invalidBody(err error) *refusal {
	invalid := new(dedup.InvalidError)
	errors.As(err, &invalid)
	return refuse(kindInvalidBody, "The body is not JSON that can be compared: its contents "+invalid.Reason+".")
}
