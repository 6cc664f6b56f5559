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

// IsRetryable reports whether another try of the same call may get the answer. It uses types and
// statuses, never the text of an error. In this order:
//
//   - an answer, as [dedup.IsAnswer] reports, is not retryable, whatever it wraps; nor is
//     [dedup.ErrSchema], which needs an operator;
//   - an error with a method Retryable() bool decides: *[StatusError], the error of a [Transport]
//     for a lost answer, any error of yours;
//   - the end of a context is retryable: it is the try's, because Do checks its own context;
//   - timeouts and lost or refused connections are retryable: net.Error, *net.OpError, io.EOF,
//     io.ErrUnexpectedEOF. An unknown host or a malformed address is not;
//   - [dedup.IsRetryable] decides.
//
// Any other error is not retryable: it counts as the tool's answer. A call that may have taken
// effect can still be retryable, because Do repeats a call only if it has a key or is harmless to
// repeat.
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

// isUnreached reports whether no connection could be made, so that nothing was sent. A malformed
// address is the caller's mistake and does not count.
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

// isCut reports whether an established connection ended. TLS alerts are *net.OpErrors too, with
// other values of Op, and do not count.
func isCut(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &op) && (op.Op == "read" || op.Op == "write")
}

// leavesOpen reports whether a try that failed with err may have taken effect. A retryable error
// leaves the outcome open unless it shows that nothing happened. A call that needs an operator is
// open, and no try can close it.
func leavesOpen(err error) bool {
	var inner *GaveUpError
	var status *StatusError
	var lost *lostAnswerError
	switch {
	case needsOperator(err):
		return true
	case !IsRetryable(err): // the tool's answer
		return false
	case errors.As(err, &inner):
		return inner.OutcomeUnknown
	case errors.Is(err, dedup.ErrOutcomeUnknown):
		return true
	case errors.Is(err, dedup.ErrAttemptsExhausted), errors.Is(err, dedup.ErrRestartTx): // nothing was committed
		return false
	case errors.As(err, &status): // the server refused the request unread
		return status.Code != http.StatusTooManyRequests && status.Code != http.StatusTooEarly
	case errors.As(err, &lost): // whatever error it wraps
		return true
	default:
		return !isUnreached(err)
	}
}

// needsOperator reports whether the call waits for an operator to find out its outcome: its
// operation is parked, or it is blocked.
func needsOperator(err error) bool {
	var parked *external.ParkedError
	return errors.As(err, &parked) || errors.Is(err, dedup.ErrBroken)
}

// settles reports whether err is the recorded answer to the call, whichever try ran it. An open
// outcome is then known.
func settles(err error) bool {
	return errors.Is(err, dedup.ErrRefused) || errors.Is(err, dedup.ErrExpired)
}
