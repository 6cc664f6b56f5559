package runner

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// IsRetryable reports whether another try of the same call may give the answer. It
// goes by types and statuses; an error's text is never read. In this order:
//
//   - what [dedup.IsAnswer] says is an answer is one, whatever it wraps, and a
//     [dedup.ErrSchema] waits for an operator;
//   - an error with a method Retryable() bool says so itself: *[StatusError], what
//     [Transport] returns of an answer that was lost, and any of your own;
//   - a context's end: that of a single try, since Do ends with its caller's;
//   - timeouts and lost or refused connections: net.Error, *net.OpError, io.EOF,
//     io.ErrUnexpectedEOF. An unknown host or a malformed address is none;
//   - what [dedup.IsRetryable] says.
//
// Everything else is not: an error that nobody has classified is the tool's
// answer. That a call may have taken effect is no obstacle, because Do repeats
// only what has a key or harms nothing by it.
func IsRetryable(err error) bool {
	if err == nil || dedup.IsAnswer(err) || errors.Is(err, dedup.ErrSchema) {
		return false
	}
	var own interface{ Retryable() bool }
	if errors.As(err, &own) {
		return own.Retryable()
	}
	var timeout net.Error // context.DeadlineExceeded is one
	return errors.As(err, &timeout) && timeout.Timeout() || isUnreached(err) || isCut(err) ||
		errors.Is(err, context.Canceled) || dedup.IsRetryable(err)
}

// isUnreached reports whether err came before anything was sent: no connection
// could be made. A malformed address is the caller's mistake.
func isUnreached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") && !isBadAddress(err)
}

func isBadAddress(err error) bool {
	var dns *net.DNSError
	var address *net.AddrError
	var parse *net.ParseError
	var invalid net.InvalidAddrError
	var network net.UnknownNetworkError
	return errors.As(err, &dns) && !dns.IsTimeout && !dns.IsTemporary ||
		errors.As(err, &address) || errors.As(err, &parse) || errors.As(err, &invalid) || errors.As(err, &network)
}

// isCut reports whether err is the end of a connection that was there. TLS alerts
// are *net.OpErrors too, under other names, and no such thing.
func isCut(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &op) && (op.Op == "read" || op.Op == "write")
}

// leavesOpen reports whether a try that failed with err may have taken effect. Of
// what may be tried again, only that leaves nothing open which says so. What is parked is
// open, and no try can close it.
func leavesOpen(err error) bool {
	var inner *GaveUpError
	var status *StatusError
	var lost *lostAnswerError
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
