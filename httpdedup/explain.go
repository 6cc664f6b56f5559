package httpdedup

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
)

// explain makes of any error what the client is told. The error itself is only
// told to OnError, where that is more.
func (m *Middleware) explain(r *http.Request, err error) *refusal {
	var (
		ready    *refusal
		scope    *ScopeError
		invalid  *dedup.InvalidError
		recorded *dedup.Error
	)
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &scope):
		if scope.status() >= http.StatusInternalServerError {
			m.opts.OnError(r, scope)
		}
		return scopeRefusal(scope)
	case errors.Is(err, dedup.ErrKeyReused) && errors.As(err, &recorded):
		return &refusal{kind: kindKeyReused, status: m.opts.ReusedStatus, detail: reusedDetail(recorded), changed: recorded.Changed}
	case errors.Is(err, dedup.ErrExpired) && errors.As(err, &recorded):
		return &refusal{kind: kindExpired, detail: fmt.Sprintf(
			"This request ran at %s, and its answer was kept until %s. It is not run again with this Idempotency-Key. Look at what it did before you send it with a new one.",
			utc(recorded.FirstAt), utc(recorded.ExpiredAt))}
	case errors.Is(err, dedup.ErrOutcomeUnknown): // first, as it tells too what kept it from being found out
		return m.later(kindOutcomeUnknown, "The request may have taken effect. Send it again, with the same Idempotency-Key, after the seconds that Retry-After says. That gives its answer and does not repeat it.")
	case errors.Is(err, dedup.ErrInFlight):
		return m.later(kindInFlight, "Its answer is not there yet. Send the same request with the same Idempotency-Key again, after the seconds that Retry-After says.")
	case dedup.IsRetryable(err), errors.Is(err, errRunOnce):
		return m.later(kindUnavailable, "Send the same request again, with the same Idempotency-Key, after the seconds that Retry-After says. That does not repeat what may have happened.")
	case errors.As(err, &invalid) && invalid.Field == "Args": // the names of its members, as arguments, are longer
		return invalidJSON(err)
	default:
		m.opts.OnError(r, err)
		return &refusal{kind: kindInternal, detail: "The fault is the server's. Sending the same request with the same Idempotency-Key again is safe, and may not help before the fault is repaired."}
	}
}

// later asks the client to come again.
func (m *Middleware) later(k kind, detail string) *refusal {
	return &refusal{kind: k, detail: detail, header: http.Header{"Retry-After": {m.opts.retryAfter()}}}
}

func scopeRefusal(e *ScopeError) *refusal {
	refused := &refusal{kind: kindNoScope, status: e.status(), detail: "Nobody could be told on whose behalf the request comes. Send it with valid credentials."}
	if e.Challenge != "" {
		refused.header = http.Header{"Www-Authenticate": {e.Challenge}}
	}
	return refused
}

// reusedDetail says what differs, by name.
func reusedDetail(e *dedup.Error) string {
	what := "It differs from this one."
	if len(e.Changed) > 0 {
		quoted := make([]string, len(e.Changed))
		for i, name := range e.Changed {
			quoted[i] = fmt.Sprintf("%q", name)
		}
		what = "What differs: " + strings.Join(quoted, ", ")
		if !e.Complete {
			what += ", and perhaps more"
		}
		what += "."
	}
	return fmt.Sprintf("This Idempotency-Key was first used at %s for another request. %s To retry that one, send it unchanged. For a new request, make a new key.", utc(e.FirstAt), what)
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }
