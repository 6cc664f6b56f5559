package runner

import (
	"errors"
	"net/http"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// leavesOpen reports whether a try that failed with err may have taken effect. Of
// what may be tried again, only that leaves nothing open which says so. What is parked is
// open, and no try can close it.
func leavesOpen(err error) bool {
	var inner *GaveUpError
	var status *StatusError
	var lost *LostAnswerError
	switch {
	case isParked(err):
		return true
	case !IsRetryable(err): // the tool's answer
		return false
	case errors.As(err, &inner):
		return inner.OutcomeUnknown
	case errors.Is(err, dedup.ErrOutcomeUnknown):
		return true
	case errors.Is(err, dedup.ErrAttemptsExhausted), errors.Is(err, dedup.ErrRestartTx): // nothing was committed
		return false
	case errors.As(err, &status): // sent away before it was looked at
		return status.Code != http.StatusTooManyRequests && status.Code != http.StatusTooEarly
	case errors.As(err, &lost): // whatever it wraps
		return true
	default:
		return !isUnreached(err)
	}
}

// isParked reports whether a person has to find out what became of the call.
func isParked(err error) bool {
	var parked *external.ParkedError
	return errors.As(err, &parked)
}

// settles reports whether err is the answer to the call itself, whichever try it
// was that ran: what was open is open no longer.
func settles(err error) bool {
	return errors.Is(err, dedup.ErrRefused) || errors.Is(err, dedup.ErrExpired)
}
