package httpdedup_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

var longKey = strings.Repeat("k", 256)

// canary is in keys and bodies, so that a leak can be found.
const canary = "Zanzibar"

// malformed is a request that is refused, in its bytes. An empty field means the valid value; a
// header "-" is left out.
type malformed struct {
	what                           string // names the request in a failure
	method, target, auth, key, typ string
	more                           string // further header lines
	body                           string
	length                         string // Content-Length, or another header that frames the body
	status                         int
	problem                        string // "" if net/http refuses the request
}

func (m malformed) wire() string {
	or := func(value, otherwise string) string {
		if value == "" {
			return otherwise
		}
		return value
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n", or(m.method, "POST"), or(m.target, "/orders"))
	for _, header := range [][2]string{
		{"Authorization", or(m.auth, "Bearer acme")},
		{"Idempotency-Key", or(m.key, `"`+canary+`"`)},
		{"Content-Type", or(m.typ, "application/json")},
	} {
		if header[1] != "-" {
			fmt.Fprintf(&b, "%s: %s\r\n", header[0], header[1])
		}
	}
	body := or(m.body, `{"item": "`+canary+`"}`)
	b.WriteString(m.more)
	b.WriteString(or(m.length, fmt.Sprintf("Content-Length: %d", len(body))))
	b.WriteString("\r\n\r\n")
	b.WriteString(body)
	return b.String()
}

// malformedRequests are refused with these statuses and problems.
func malformedRequests() []malformed {
	object := func(member string) string { return `{"item": "` + canary + `", ` + member + `}` }
	return []malformed{
		{what: "no Idempotency-Key", key: "-", status: 400, problem: "missing-key"},
		{what: "no Idempotency-Key, with PUT", method: "PUT", key: "-", status: 400, problem: "missing-key"},
		{what: "no Idempotency-Key, with PATCH", method: "PATCH", key: "-", status: 400, problem: "missing-key"},
		{what: "no Idempotency-Key, with DELETE", method: "DELETE", key: "-", status: 400, problem: "missing-key"},
		{what: "no Idempotency-Key, with a method that nobody knows", method: "BREW", key: "-", status: 400, problem: "missing-key"},
		{what: "no Idempotency-Key, and an Agent-Turn without its turn", key: "-", more: "Agent-Turn: \"" + canary + "\"\r\n", status: 400, problem: "invalid-request"},
		{what: "an escaped closing quote: `\"a\\\"`", key: `"` + canary + `\"`, status: 400, problem: "invalid-key"},
		{what: "a bare backslash: `a\\b`", key: canary + `\b`, status: 400, problem: "invalid-key"},
		{what: "a tab in the quotes", key: "\"" + canary + "\tb\"", status: 400, problem: "invalid-key"},
		{what: "a letter beyond ASCII in the quotes", key: "\"" + canary + "é\"", status: 400, problem: "invalid-key"},
		{what: "bytes that are no UTF-8", key: "\"" + canary + "\xff\"", status: 400, problem: "invalid-key"},
		{what: "a folded header", key: canary + "\r\n b", status: 400, problem: "invalid-key"},
		{what: "a NUL", key: "\"" + canary + "\x00\"", status: 400},
		{what: "another control character", key: "\"" + canary + "\x01\"", status: 400},
		{what: "256 bytes in quotes", key: `"` + canary + longKey[len(canary):] + `"`, status: 400, problem: "invalid-key"},
		{what: "no credentials", auth: "-", status: 403, problem: "no-scope"},
		{what: "no credentials and no key", auth: "-", key: "-", status: 403, problem: "no-scope"},
		{what: "credentials of nobody", auth: "Bearer ", status: 403, problem: "no-scope"},
		{what: "a malformed percent sign in the query", target: "/orders?a=%zz" + canary, status: 400, problem: "invalid-request"},
		{what: "a semicolon in the query", target: "/orders?a=1;b=" + canary, status: 400, problem: "invalid-request"},
		{what: "a malformed percent sign in the path", target: "/orders/%zz" + canary, status: 400},
		{what: "two Content-Types", more: "Content-Type: text/plain\r\n", status: 400, problem: "invalid-request"},
		{what: "a malformed Content-Type", typ: "application/json; " + canary, status: 400, problem: "invalid-request"},
		{what: "a Content-Type of nothing but parameters", typ: "; charset=utf-8", status: 400, problem: "invalid-request"},
		{what: "a Content-Encoding beyond ASCII", more: "Content-Encoding: é" + canary + "\r\n", status: 400, problem: "invalid-request"},
		{what: "JSON that does not end", body: `{"item": "` + canary, status: 400, problem: "invalid-body"},
		{what: "JSON with text behind it", body: object(`"a": 1`) + canary, status: 400, problem: "invalid-body"},
		{what: "two JSON values", body: object(`"a": 1`) + "\n" + object(`"a": 1`), status: 400, problem: "invalid-body"},
		{what: "JSON of white space", body: " \r\n\t", status: 400, problem: "invalid-body"},
		{what: "a member that occurs twice", body: object(`"item": "b"`), status: 400, problem: "invalid-body"},
		{what: "a member that occurs twice, spelled in two ways", body: object(`"\u0069tem": "b"`), status: 400, problem: "invalid-body"},
		{what: "a member that occurs twice, deep inside", body: object(`"a": [{"b": 1, "b": 1}]`), status: 400, problem: "invalid-body"},
		{what: "a lone surrogate", body: object(`"a": "\ud800"`), status: 400, problem: "invalid-body"},
		{what: "JSON that is no UTF-8", body: object("\"a\": \"\xff\""), status: 400, problem: "invalid-body"},
		{what: "JSON in UTF-16", body: "\xff\xfe{\x00}\x00", status: 400, problem: "invalid-body"},
		{what: "JSON behind a byte order mark", body: "\xef\xbb\xbf" + object(`"a": 1`), status: 400, problem: "invalid-body"},
		{what: "NaN, a comment, a trailing comma", body: object(`"a": NaN, /* b */`), status: 400, problem: "invalid-body"},
		{what: "a number with a leading zero", body: object(`"a": 01`), status: 400, problem: "invalid-body"},
		{what: "a number beyond any use: 1e9999999999", body: object(`"a": 1e9999999999`), status: 400, problem: "invalid-body"},
		{what: "1,001 levels of arrays", body: strings.Repeat("[", 1001) + strings.Repeat("]", 1001), status: 400, problem: "invalid-body"},
		{what: "gzip that claims to be plain JSON", body: "\x1f\x8b\x08\x00" + canary, status: 400, problem: "invalid-body"},
		{what: "a form that claims to be JSON", body: "item=" + canary, status: 400, problem: "invalid-body"},
		{what: "more than MaxBody, announced", length: "Content-Length: 2000001", status: 413, problem: "body-too-large"},
		{what: "more than MaxBody, in chunks", length: "Transfer-Encoding: chunked", body: "1000\r\n" + strings.Repeat("x", 0x1000) + "\r\n0\r\n\r\n", status: 413, problem: "body-too-large"},
		{what: "a chunk of a length that is no number", length: "Transfer-Encoding: chunked", body: "zz\r\n" + canary + "\r\n0\r\n\r\n", status: 400, problem: "invalid-body"},
		{what: "a body that ends early", length: "Content-Length: 900", status: 400, problem: "invalid-body"},
		{what: "a negative Content-Length", length: "Content-Length: -1", status: 400},
		{what: "two Content-Lengths that differ", length: "Content-Length: 5\r\nContent-Length: 6", status: 400},
		{what: "an unknown Transfer-Encoding", length: "Transfer-Encoding: " + canary, status: 501},
	}
}

func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{MaxBody: 3000})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "BREW"} {
		s.handle(method+" /orders", "orders", func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("%s %s was run", r.Method, r.URL)
		})
	}
	cases := malformedRequests()
	require.GreaterOrEqual(t, len(cases), 40)
	for _, c := range cases {
		got := s.raw(t, c.wire())
		require.Equal(t, c.status, got.status, "%s: %s", c.what, got.body)
		if c.problem != "" {
			require.Equal(t, c.problem, got.problem(t).Type, c.what)
		}
		require.NotContains(t, fmt.Sprint(got.header, got.body), canary, c.what)
	}
	require.Zero(t, s.count(t, "tool_dedup"))
	require.Empty(t, s.told())
}

// raw sends bytes over a connection, closes its writing side, and reads the answer.
func (s *shop) raw(t testing.TB, wire string) reply {
	t.Helper()
	conn, err := net.Dial("tcp", s.srv.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	// The server may answer and close before it has read everything.
	_, _ = io.WriteString(conn, wire)
	_ = conn.(*net.TCPConn).CloseWrite()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return reply{res.StatusCode, res.Header, string(body)}
}

// problems.md explains every problem.
func TestProblemsDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("problems.md")
	require.NoError(t, err)
	for _, name := range []string{
		"missing-key", "invalid-key", "invalid-request", "invalid-body", "body-too-large", "no-scope", "in-flight", "key-reused",
		"refused", "expired", "unavailable", "outcome-unknown", "internal", "unknown-operation", "invalid-operation", "method-not-allowed",
	} {
		require.Contains(t, string(text), "\n## "+name+"\n")
	}
}
