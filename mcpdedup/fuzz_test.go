package mcpdedup_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The fuzzers' inputs go through the SDK's HTTP handler to a server on a real database. For every
// input there must be one booking for each record that is not a refusal, and no detail of the
// server in an answer.

func FuzzArguments(f *testing.F) {
	for _, m := range malformed {
		if !strings.HasPrefix(m.body, "raw:") {
			f.Add([]byte(m.body))
		}
	}
	f.Add([]byte(`{"guest":"Ada","idempotencyKey":"k","nights":2,"extra":{"a":[1,2.50]}}`))
	f.Add([]byte(`{"guest":"Nobody","idempotencyKey":"k2"}`))
	check := fuzzer(f)
	f.Fuzz(func(t *testing.T, arguments []byte) {
		check(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":`+string(arguments)+`}}`)
	})
}

func FuzzMeta(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `[]`, `{"io.github.tooldedup/idempotency-key":"k"}`, `{"io.github.tooldedup/idempotency-key":7}`,
		`{"io.github.tooldedup/idempotency-key":"\ud800"}`, `{"io.github.tooldedup/idempotency-key":"k","progressToken":1}`,
		`{"io.github.tooldedup/idempotency-key":{"a":[]}}`, `{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`} {
		f.Add([]byte(seed))
	}
	check := fuzzer(f)
	f.Fuzz(func(t *testing.T, meta []byte) {
		check(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada"},"_meta":`+string(meta)+`}}`)
	})
}

func FuzzBody(f *testing.F) {
	for _, m := range append(malformed, noMCP...) {
		if body, raw := strings.CutPrefix(m.body, "raw:"); raw {
			f.Add([]byte(body))
		}
	}
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada","idempotencyKey":"k"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"guest":"Ada","amount":1,"idempotencyKey":"k"}}}]`))
	check := fuzzer(f)
	f.Fuzz(func(t *testing.T, body []byte) { check(t, string(body)) })
}

// fuzzer returns a function that posts a body and checks the result.
func fuzzer(f *testing.F) func(t *testing.T, body string) {
	d := newDesk(f, nil)
	post := poster(d.server(f, oneUser()))
	return func(t *testing.T, body string) {
		status, answer := post(body)
		for _, secret := range []string{"SQLSTATE", "server_only", "goroutine", "tool_dedup", "pgx"} {
			require.False(t, strings.Contains(answer, secret) && !strings.Contains(body, secret), answer)
		}
		if status == http.StatusOK && answer != "" {
			require.True(t, json.Valid([]byte(answer)), answer)
			require.True(t, utf8.ValidString(answer), answer)
		}
		if !strings.Contains(answer, `"duplicate":`) {
			return // nothing was recorded, or another method answered
		}
		var records, effects int
		require.NoError(t, d.pool.QueryRow(t.Context(), `
			SELECT (SELECT count(*) FROM tool_dedup WHERE outcome = 'done' AND tool <> 'set_phone'),
			       (SELECT count(*) FROM bookings) + (SELECT count(*) FROM effects WHERE what <> 'phone')`).Scan(&records, &effects))
		require.Equal(t, records, effects)
	}
}
