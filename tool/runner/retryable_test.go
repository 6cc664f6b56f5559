package runner_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/tool/runner"
)

// own is an error with a Retryable method.
type own struct {
	retryable bool
	cause     error
}

func (e own) Error() string   { return "own" }
func (e own) Retryable() bool { return e.retryable }
func (e own) Unwrap() error   { return e.cause }

// slow is a timeout outside package net.
type slow struct{}

func (slow) Error() string   { return "slow" }
func (slow) Timeout() bool   { return true }
func (slow) Temporary() bool { return false }

func opError(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }

func get(err error) error { return &url.Error{Op: "Post", URL: "http://x", Err: err} }

func TestIsRetryable(t *testing.T) {
	t.Parallel()
	refusedConnection := opError("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED))
	reset := opError("read", os.NewSyscallError("read", syscall.ECONNRESET))
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"Nil": {nil, false},
		// Never by text.
		"TextOfReset":       {errors.New("read: connection reset by peer"), false},
		"TextOfStatus":      {errors.New("503 Service Unavailable, retry"), false},
		"TextOfTimeout":     {errors.New("context deadline exceeded"), false},
		"HTTPClientTimeout": {get(os.ErrDeadlineExceeded), true},
		// Those that say so themselves.
		"OwnYes":          {own{retryable: true}, true},
		"OwnYesWrapped":   {fmt.Errorf("calling: %w", own{retryable: true}), true},
		"OwnNo":           {own{retryable: false, cause: io.EOF}, false},
		"OutermostCounts": {own{retryable: true, cause: own{retryable: false}}, true},
		// The network.
		"EOF":                {get(io.EOF), true},
		"UnexpectedEOF":      {fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), true},
		"ConnectionRefused":  {get(refusedConnection), true},
		"ConnectionReset":    {get(reset), true},
		"BrokenPipe":         {opError("write", os.NewSyscallError("write", syscall.EPIPE)), true},
		"Closed":             {opError("read", net.ErrClosed), true},
		"Timeout":            {opError("read", os.ErrDeadlineExceeded), true},
		"OtherTimeout":       {fmt.Errorf("calling: %w", slow{}), true},
		"ProxyUnreached":     {get(opError("proxyconnect", refusedConnection)), true},
		"DNSTimeout":         {get(opError("dial", &net.DNSError{IsTimeout: true})), true},
		"DNSTemporary":       {get(opError("dial", &net.DNSError{IsTemporary: true})), true},
		"NoSuchHost":         {get(opError("dial", &net.DNSError{IsNotFound: true})), false},
		"BadAddress":         {opError("dial", &net.AddrError{Err: "missing port", Addr: "x"}), false},
		"UnknownNetwork":     {opError("dial", net.UnknownNetworkError("tcp9")), false},
		"BadCertificate":     {get(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), false},
		"TLSAlert":           {get(opError("remote error", tls.AlertError(42))), false},
		"UnsupportedScheme":  {get(errors.New(`unsupported protocol scheme "gopher"`)), false},
		"SchemeMismatch":     {get(http.ErrSchemeMismatch), false},
		"TransportKeyFights": {get(&dedup.InvalidError{}), false},
		// Contexts, of a try.
		"Deadline": {get(context.DeadlineExceeded), true},
		"Canceled": {fmt.Errorf("calling: %w", context.Canceled), true},
		// Package dedup.
		"InFlight":            {dedup.ErrInFlight, true},
		"Parked":              {&external.ParkedError{}, false},
		"ParkedByTheNetwork":  {errors.Join(&external.ParkedError{}, io.EOF), false},
		"OutcomeUnknown":      {&dedup.Error{Kind: dedup.ErrOutcomeUnknown}, true},
		"AttemptsExhausted":   {&dedup.Error{Kind: dedup.ErrAttemptsExhausted}, true},
		"Serialization":       {&pgconn.PgError{Code: "40001"}, true},
		"UniqueViolation":     {&pgconn.PgError{Code: "23505"}, false},
		"Refused":             {&dedup.RefusedError{}, false},
		"RefusedByTheNetwork": {errors.Join(&dedup.RefusedError{}, io.EOF), false},
		"RefusedByItself":     {errors.Join(dedup.ErrRefused, own{retryable: true}), false},
		"Expired":             {&dedup.Error{Kind: dedup.ErrExpired}, false},
		"KeyReused":           {&dedup.Error{Kind: dedup.ErrKeyReused}, false},
		"Broken":              {&dedup.Error{Kind: dedup.ErrBroken, Err: io.EOF}, false},
		"Result":              {&dedup.InvalidError{What: "result", Err: io.EOF}, false},
		"InvalidCall":         {&dedup.InvalidError{What: "call", Err: io.EOF}, false},
	} {
		require.Equal(t, test.want, runner.IsRetryable(test.err), name)
	}
}

func TestIsRetryableByStatus(t *testing.T) {
	t.Parallel()
	retryable := map[int]bool{408: true, 425: true, 429: true, 500: true, 502: true, 503: true, 504: true}
	for _, registered := range []int{501, 505, 506, 507, 508, 510, 511} {
		retryable[registered] = false
	}
	for code := 100; code < 600; code++ {
		if _, known := retryable[code]; !known && code >= 500 {
			retryable[code] = true // such as a proxy's 524; the call may go on behind it
		}
		err := get(&runner.StatusError{Code: code})
		require.Equal(t, retryable[code], runner.IsRetryable(err), code)
	}
	require.True(t, runner.IsRetryable(&runner.StatusError{Code: 409, RetryAfter: 1}), "in flight")
	require.True(t, runner.IsRetryable(&runner.StatusError{Code: 202, RetryAfter: 1}), "accepted")
	require.False(t, runner.IsRetryable(&runner.StatusError{Code: 422, RetryAfter: 1}))
}
