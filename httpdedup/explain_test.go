package httpdedup

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// TestExplain checks the answer to every error of a call. TestFailureOf of internal/door checks how
// errors are classified.
func TestExplain(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	secret := &pgconn.PgError{Severity: "ERROR", Message: "canary", Code: "23505"}
	for name, c := range map[string]struct {
		err   error
		kind  Problem
		later bool // the answer has Retry-After
		told  bool // OnError gets the error
	}{
		"Refusal":        {refuse(kindInvalidKey, "no"), kindInvalidKey, false, false},
		"Reused":         {&dedup.Error{Kind: dedup.ErrKeyReused, Tool: "pay", CreatedAt: at, Changed: []string{"body.a"}}, kindKeyReused, false, false},
		"Expired":        {&dedup.Error{Kind: dedup.ErrExpired, Tool: "pay", CreatedAt: at}, kindExpired, false, false},
		"RefusedByTool":  {&dedup.RefusedError{Message: "declined", Code: "card"}, kindRefused, false, false},
		"Body":           {&dedup.InvalidError{What: "call", Field: "Args", Reason: "are too long"}, kindInvalidBody, false, false},
		"Input":          {&dedup.InvalidError{What: "call", Field: "in", Reason: "has a member too many"}, kindInvalidBody, false, false},
		"InFlight":       {&dedup.Error{Kind: dedup.ErrInFlight}, kindInFlight, true, false},
		"Unknown":        {&dedup.Error{Kind: dedup.ErrOutcomeUnknown, Err: secret}, kindOutcomeUnknown, true, false},
		"Exhausted":      {&dedup.Error{Kind: dedup.ErrAttemptsExhausted, Err: secret}, kindUnavailable, true, false},
		"Ended":          {context.Canceled, kindUnavailable, true, false},
		"BeforeARouter":  {errRunOnce, kindUnavailable, true, false},
		"Broken":         {&dedup.Error{Kind: dedup.ErrBroken, Err: secret}, kindInternal, false, true},
		"Unnamed":        {errToolUnnamed, kindInternal, false, true},
		"Response":       {&dedup.InvalidError{What: "result", Reason: "canary"}, kindInternal, false, true},
		"OfTheDatabase":  {secret, kindInternal, false, true},
		"NoScope":        {&ScopeError{Err: errors.New("canary")}, kindNoScope, false, false},
		"ScopeOfAServer": {&ScopeError{Status: 503, Err: errors.New("canary")}, kindNoScope, false, true},
	} {
		told := 0
		opts, err := Options{
			Scope: func(*http.Request) (string, error) { return "acme", nil }, RetryAfter: 7 * time.Second,
			OnError: func(r *http.Request, err error) {
				told++
				require.Equal(t, c.err, err, name)
				require.Equal(t, "pay", tool.InvocationOf(r.Context()).Tool, name)
			},
		}.resolve()
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, opts.MaxWait, "a twin is waited for")
		m := &Middleware{opts: opts}
		refused := m.explain(httptest.NewRequest(http.MethodPost, "/", nil), tool.Invocation{Tool: "pay"}, c.err)
		require.Equal(t, c.kind.Name, refused.Name, name)
		require.Equal(t, c.later, refused.header.Get("Retry-After") == "7", name)
		require.Equal(t, c.told, told == 1, name)
		require.NotEmpty(t, refused.Detail, name)
		require.NotContains(t, refused.Detail, "canary", name)
	}
}
