package rpc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// TestStatus holds the status of every error, and the tables of both doors to it. TestFailureOf of
// internal/door holds the meaning of the errors.
func TestStatus(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	secret := &pgconn.PgError{Severity: "ERROR", Message: "canary", Code: "23505"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	const later, told = true, true
	shown := map[string]bool{}
	for name, c := range map[string]struct {
		ctx         context.Context
		err         error
		code        code.Code
		reason      string
		later, told bool
		changed     string
	}{
		"KeyRequired": {err: &keyError{door.KeyRequired, "no key"}, code: code.Code_INVALID_ARGUMENT, reason: "KEY_REQUIRED"},
		"KeyInvalid":  {err: &keyError{door.KeyInvalid, "bad key"}, code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"Arguments":   {err: argsInvalid(secret), code: code.Code_INVALID_ARGUMENT, reason: "ARGUMENTS_INVALID"},
		"Reused":      {err: &dedup.Error{Kind: dedup.ErrKeyReused, Tool: "pay", CreatedAt: at, Changed: []string{"amount"}}, code: code.Code_FAILED_PRECONDITION, reason: "KEY_REUSED", changed: "amount"},
		"Expired":     {err: &dedup.Error{Kind: dedup.ErrExpired, Tool: "pay", CreatedAt: at}, code: code.Code_FAILED_PRECONDITION, reason: "EXPIRED"},
		"Refused":     {err: &dedup.RefusedError{Message: "declined", Code: "card"}, code: code.Code_FAILED_PRECONDITION, reason: "REFUSED"},
		"Broken":      {err: &dedup.Error{Kind: dedup.ErrBroken, Err: secret}, code: code.Code_FAILED_PRECONDITION, reason: "BLOCKED", told: told},
		"Parked":      {err: &external.ParkedError{Operation: external.Operation{ChangedAt: at}}, code: code.Code_FAILED_PRECONDITION, reason: "PARKED", later: later},
		"InFlight":    {err: &dedup.Error{Kind: dedup.ErrInFlight}, code: code.Code_ABORTED, reason: "IN_FLIGHT", later: later},
		"Unknown":     {err: &dedup.Error{Kind: dedup.ErrOutcomeUnknown, Err: secret}, code: code.Code_UNAVAILABLE, reason: "OUTCOME_UNKNOWN", later: later},
		"Exhausted":   {err: &dedup.Error{Kind: dedup.ErrAttemptsExhausted, Err: secret}, code: code.Code_UNAVAILABLE, reason: "UNAVAILABLE", later: later},
		"Timeout":     {err: context.DeadlineExceeded, code: code.Code_UNAVAILABLE, reason: "TIMEOUT"},
		"Cancelled":   {ctx: ended, err: context.Canceled, code: code.Code_CANCELLED, reason: "TIMEOUT"},
		"Schema":      {err: &dedup.Error{Kind: dedup.ErrSchema}, code: code.Code_INTERNAL, reason: "FAILED", told: told},
		"Database":    {err: secret, code: code.Code_INTERNAL, reason: "FAILED", told: told},
		"Result":      {err: &dedup.InvalidError{What: "result", Reason: "canary"}, code: code.Code_INTERNAL, reason: "FAILED", told: told},
	} {
		var errs []error
		g := &Door{opts: Options{RetryAfter: 7 * time.Second, OnError: func(ctx context.Context, method string, err error) {
			require.Equal(t, "pay", method, name)
			require.Equal(t, "acme", tool.InvocationOf(ctx).Scope, name)
			errs = append(errs, err)
		}}}
		ctx := c.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		s := g.status(ctx, &method{name: "pay"}, tool.Invocation{Scope: "acme", Tool: "pay"}, c.err)
		require.Equal(t, c.code.String(), code.Code(s.GetCode()).String(), name)
		require.NotEmpty(t, s.GetMessage(), name)
		require.NotContains(t, s.GetMessage(), "canary", name)
		require.Equal(t, c.told, len(errs) == 1 && errors.Is(errs[0], c.err), name)
		info, retry := new(errdetails.ErrorInfo), new(errdetails.RetryInfo)
		require.NoError(t, s.GetDetails()[0].UnmarshalTo(info), name)
		require.Equal(t, c.reason, info.GetReason(), name)
		require.Equal(t, c.changed, info.GetMetadata()["changed"], name)
		require.Equal(t, c.later, len(s.GetDetails()) == 2, name)
		if c.later {
			require.NoError(t, s.GetDetails()[1].UnmarshalTo(retry), name)
			require.GreaterOrEqual(t, retry.GetRetryDelay().AsDuration(), 7*time.Second, name)
		}
		shown[c.reason] = true
		if c.reason == "TIMEOUT" {
			c.code = -1
		}
		documented(t, c.reason, c.code)
	}
	documented(t, "UNIDENTIFIED", code.Code_UNAUTHENTICATED) // the suite of both doors has it
	for reason := range codes {
		require.True(t, shown[strings.ToUpper(string(reason))] || reason == door.Unidentified, reason)
	}
}

// documented requires that the tables of both doors have a reason with its code. The code of an
// ended context is -1.
func documented(t *testing.T, reason string, of code.Code) {
	t.Helper()
	text := map[bool]string{true: "of the context", false: of.String()}[of == -1]
	for file, want := range map[string]string{"../../grpcdedup/doc.go": text, "../../connectdedup/doc.go": strings.ToLower(text)} {
		page, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Regexp(t, fmt.Sprintf(`(?m)^//\t%s +%s  `, reason, regexp.QuoteMeta(want)), string(page), file)
	}
}
