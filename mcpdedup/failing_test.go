package mcpdedup

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// TestTexts compares the text of every code with a golden file, for tools whose key is an added
// argument, in _meta, one of their own arguments, or not needed.
func TestTexts(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	secret := &pgconn.PgError{Severity: "ERROR", Message: "canary", Code: "23505"}
	keyRequired := &dedup.InvalidError{What: "call", Field: "Key", Missing: true, Reason: "is empty; canary"}
	many := strings.Split(strings.Repeat("argument ", 30), " ")
	cases := []struct {
		name string
		err  error
	}{
		{"key required", keyRequired},
		{"key invalid", notMade(door.KeyInvalid, "The key in the argument idempotencyKey is empty.", nil)},
		{"key of arguments invalid", &dedup.InvalidError{What: "call", Field: "Key", Reason: "canary"}},
		{"key reused", &dedup.Error{Kind: dedup.ErrKeyReused, Tool: "pay", CreatedAt: at, Changed: []string{"amount", "not\nplain"}, Complete: true}},
		{"key reused, incomplete", &dedup.Error{Kind: dedup.ErrKeyReused, Tool: "pay", CreatedAt: at, Changed: []string{"amount"}}},
		{"key reused, names gone", &dedup.Error{Kind: dedup.ErrKeyReused, Tool: "pay", CreatedAt: at}},
		{"key reused, many names", &dedup.Error{Kind: dedup.ErrKeyReused, Tool: "pay", CreatedAt: at, Changed: many, Complete: true}},
		{"argument", &tool.ArgumentError{Field: "lines[2].sku", Reason: "is missing"}},
		{"argument that reads itself", &tool.ArgumentError{Field: "day", Reason: "cannot be read", Type: "canary.Type", Err: secret}},
		{"arguments", &tool.ArgumentError{Reason: "must be an object"}},
		{"arguments that cannot be compared", &dedup.InvalidError{What: "call", Field: "Args", Reason: "are not usable as JSON: a lone surrogate in a string, at byte 3"}},
		{"added argument", notMade(door.ArgumentsInvalid, "The argument idempotencyKey is given twice.", nil)},
		{"in flight", dedup.ErrInFlight},
		{"expired", &dedup.Error{Kind: dedup.ErrExpired, Tool: "pay", CreatedAt: at, ExpiredAt: at.Add(time.Hour)}},
		{"not kept", &dedup.Error{Kind: dedup.ErrExpired, Tool: "pay", CreatedAt: at}},
		{"refused, and not kept", &dedup.Error{Kind: dedup.ErrExpired, Tool: "pay", CreatedAt: at, Refused: true}},
		{"refused", &dedup.RefusedError{Message: "card declined", CreatedAt: at}},
		{"refused with details", &dedup.RefusedError{Message: "card declined", Code: "declined", Details: json.RawMessage(`{"limit":5}`), Replayed: true, CreatedAt: at}},
		{"refused by the database", &dedup.RefusedError{Message: secret.Error(), Details: json.RawMessage(`"canary"`), OfDatabase: true, CreatedAt: at}},
		{"outcome unknown", &dedup.Error{Kind: dedup.ErrOutcomeUnknown, Err: fmt.Errorf("%w (%w)", secret, context.Canceled)}},
		{"attempts exhausted", &dedup.Error{Kind: dedup.ErrAttemptsExhausted, Err: secret}},
		{"timeout", fmt.Errorf("canary: %w", context.DeadlineExceeded)},
		{"broken", &dedup.Error{Kind: dedup.ErrBroken, Err: secret}},
		{"unidentified", notMade(door.Unidentified, "The server does not know on whose behalf this call is made.", secret)},
		{"database", secret},
	}
	tools := []struct {
		name string
		o    offered
		key  string
	}{
		{"argument", offered{info: tool.Info{Name: "pay", RecordedAs: "pay", Class: tool.Destructive}, keyArgument: KeyArgument}, "k"},
		{"_meta", offered{info: tool.Info{Name: "pay", RecordedAs: "pay", Class: tool.Write}}, "k"},
		{"own argument", offered{info: tool.Info{Name: "pay", RecordedAs: "pay", Class: tool.Write, Key: []string{"order.id", "day"}}}, "k"},
		{"no key", offered{info: tool.Info{Name: "pay", RecordedAs: "pay", Class: tool.ReadOnly}}, ""},
	}
	var golden strings.Builder
	seen := map[door.Code]bool{}
	for _, c := range cases {
		fmt.Fprintf(&golden, "== %s\n", c.name)
		var before string
		for _, of := range tools {
			opts, err := (&Options{Scope: SingleUser("a"), RetryAfter: 7 * time.Second}).checked()
			require.NoError(t, err)
			hidden := false
			opts.OnError = func(_ context.Context, f Failure) {
				hidden = true
				require.Equal(t, c.err, f.Err)
				require.Equal(t, of.key != "", f.KeyHash != "")
			}
			of.o.opts = &opts
			res := of.o.failed(t.Context(), of.key, c.err)
			require.True(t, res.IsError)
			require.Nil(t, res.StructuredContent)
			seen[door.Code(res.Meta[door.MetaError].(string))] = true
			text := described(t, res, hidden)
			require.NotContains(t, text, "canary", c.name)
			if text != before {
				fmt.Fprintf(&golden, "%s: %s", of.name, text)
			}
			before = text
		}
	}
	for code := range codes {
		require.True(t, seen[code], "no text of %s is tested", code)
	}
	path := "testdata/texts.golden"
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile(path, []byte(golden.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), golden.String())
}

// codes lists all codes of answers, and whether the same call may be made again.
var codes = map[door.Code]bool{
	door.InFlight: true, door.OutcomeUnknown: true, door.Unavailable: true, door.Timeout: true,
	door.KeyRequired: false, door.KeyInvalid: false, door.KeyReused: false, door.ArgumentsInvalid: false, door.Expired: false,
	door.Refused: false, door.Blocked: false, door.Unidentified: false, door.Failed: false,
}

// described returns an answer with one line for each text, and one for _meta without the key.
func described(t *testing.T, res *mcp.CallToolResult, hidden bool) string {
	t.Helper()
	var b strings.Builder
	for _, c := range res.Content {
		b.WriteString(c.(*mcp.TextContent).Text + "\n")
	}
	delete(res.Meta, MetaKey)
	meta, err := json.Marshal(res.Meta)
	require.NoError(t, err)
	fmt.Fprintf(&b, "\t%s told to the author: %v\n", meta, hidden)
	return b.String()
}

// TestCodes: the package documentation has a line for each code, and package runner repeats a call
// for the same codes.
func TestCodes(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for code, again := range codes {
		require.Contains(t, string(doc), "//\t"+string(code)+" ")
		err := runner.ResultError(true, map[string]any{door.MetaError: string(code), door.MetaRetryAfter: 7})
		require.Equal(t, again, runner.IsRetryable(err), code)
	}
	var status *runner.StatusError
	require.ErrorAs(t, runner.ResultError(false, map[string]any{door.MetaRetryAfter: 7}), &status)
}
