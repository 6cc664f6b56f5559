package httpdedup_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// spelling is a way to write the header.
type spelling struct {
	what  string
	lines []string
	// key is the key that the lines stand for, or problem the fault that they are refused for.
	key, problem string
	why          string
	// name is another spelling of the header's name.
	name string
}

const uuid = "8e03978e-40d5-43dd-bc93-6894a57f9324"

var spellings = []spelling{
	{what: "in quotes", lines: []string{`"q ` + uuid + `"`}, key: "q " + uuid, why: "as the draft has it"},
	{what: "bare", lines: []string{uuid}, key: uuid, why: "as most clients send it"},
	{what: "in capitals", lines: []string{strings.ToUpper(uuid)}, key: strings.ToUpper(uuid), why: "keys have a case"},
	{what: "a number", lines: []string{"12345"}, key: "12345", why: "a bare key is text"},
	{what: "base64", lines: []string{"tc1_abc/DEF+ghi=="}, key: "tc1_abc/DEF+ghi==", why: "visible ASCII"},
	{what: "a URN", lines: []string{"urn:order:117/send?x#y"}, key: "urn:order:117/send?x#y", why: "visible ASCII"},
	{what: "single quotes", lines: []string{"'k1'"}, key: "'k1'", why: "they are no quotes of the format"},
	{what: "angle brackets", lines: []string{"<k2>"}, key: "<k2>", why: "visible ASCII"},
	{what: "a byte sequence", lines: []string{":aGk=:"}, key: ":aGk=:", why: "a bare key is text"},
	{what: "percent signs", lines: []string{"%22k3%22"}, key: "%22k3%22", why: "a header has no such escapes"},
	{what: "white space around it", lines: []string{"  k4\t "}, key: "k4", why: "it is not part of a header"},
	{what: "white space in the quotes", lines: []string{`" k5 "`}, key: " k5 ", why: "it is part of a string"},
	{what: "a comma in the quotes", lines: []string{`"a,b"`}, key: "a,b", why: "it is part of a string"},
	{what: "a semicolon in the quotes", lines: []string{`"a;b=1"`}, key: "a;b=1", why: "it is part of a string"},
	{what: "escapes", lines: []string{`"a\"b\\c"`}, key: `a"b\c`, why: "the two that strings have"},
	{what: "a parameter", lines: []string{`"k6";a=1`}, key: "k6", why: "it means nothing yet"},
	{what: "a semicolon behind a bare key", lines: []string{"k7;a=1"}, problem: "invalid-key", why: "two keys must not become one"},
	{what: "a parameter with a string", lines: []string{`"k8"; a="x;y\""`}, key: "k8", why: "its end is known"},
	{what: "the name in small letters", name: "idempotency-key", lines: []string{"k9"}, key: "k9", why: "names of headers have no case"},
	{what: "the name in capitals", name: "IDEMPOTENCY-KEY", lines: []string{"k10"}, key: "k10", why: "names of headers have no case"},
	{what: "255 bytes", lines: []string{strings.Repeat("k", 255)}, key: strings.Repeat("k", 255), why: "the most"},
	{what: "256 bytes", lines: []string{strings.Repeat("k", 256)}, problem: "invalid-key", why: "it is not cut: two would become one"},
	{what: "no header", lines: nil, problem: "missing-key", why: "a retry looks like a new request"},
	{what: "another name", name: "X-Idempotency-Key", lines: []string{"k11"}, problem: "missing-key", why: "it is another header"},
	{what: "empty", lines: []string{""}, problem: "invalid-key", why: "a variable that nobody filled"},
	{what: "an empty string", lines: []string{`""`}, problem: "invalid-key", why: "a variable that nobody filled"},
	{what: "null", lines: []string{"null"}, problem: "invalid-key", why: "an id that was never there"},
	{what: "None", lines: []string{`"None"`}, problem: "invalid-key", why: "an id that was never there"},
	{what: "the tool's name", lines: []string{"anything"}, problem: "invalid-key", why: "all of its calls would have it"},
	{what: "two headers", lines: []string{"a", "b"}, problem: "invalid-key", why: "nobody knows which"},
	{what: "two equal headers", lines: []string{"a", "a"}, problem: "invalid-key", why: "a proxy may join them, and then they are refused too"},
	{what: "two that were joined", lines: []string{"a, b"}, problem: "invalid-key", why: "two keys must not become one"},
	{what: "two strings", lines: []string{`"a", "b"`}, problem: "invalid-key", why: "two keys must not become one"},
	{what: "a bare space", lines: []string{"a b"}, problem: "invalid-key", why: "nobody knows where it ends"},
	{what: "no closing quote", lines: []string{`"a`}, problem: "invalid-key", why: "it may be cut off"},
	{what: "no opening quote", lines: []string{`a"`}, problem: "invalid-key", why: "it may be cut off"},
	{what: "text behind the quotes", lines: []string{`"a"b`}, problem: "invalid-key", why: "nobody knows what it means"},
	{what: "an escape that is none", lines: []string{`"a\n"`}, problem: "invalid-key", why: "two parsers read two keys"},
	{what: "a comma behind the quotes", lines: []string{`"a";b, "c"`}, problem: "invalid-key", why: "two keys must not become one"},
	{what: "a letter of Latin 1", lines: []string{"caf\u00e9"}, problem: "invalid-key", why: "clients send it in two encodings"},
	{what: "a letter beyond Latin 1", lines: []string{"ключ"}, problem: "invalid-key", why: "clients send it in two encodings"},
}

func TestSpellingsOfTheHeader(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(spellings), 30)
	for name, send := range wireClients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := wireServer(t)
			var requests []wireRequest
			for _, sp := range spellings {
				r := jsonOf(`{"item":"a"}`)
				header := sp.name
				if header == "" {
					header = "Idempotency-Key"
				}
				for _, line := range sp.lines {
					r = r.with(header, line)
				}
				quoted := fmt.Sprintf(`"%s"`, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(sp.key))
				requests = append(requests, r.keyed(), jsonOf(`{"item":"a"}`).keyed(quoted))
			}
			answers := send(t, url, requests)
			require.Len(t, answers, len(requests))
			calls := 0
			for i, sp := range spellings {
				first, quoted := answers[2*i], answers[2*i+1]
				if sp.problem != "" {
					require.Equal(t, http.StatusBadRequest, first.Status, "%s, because %s: %+v", sp.what, sp.why, first)
					require.Equal(t, sp.problem, first.problemType(), sp.what)
					continue
				}
				calls++
				require.Equal(t, http.StatusOK, first.Status, "%s, because %s: %+v", sp.what, sp.why, first)
				require.Empty(t, first.Replayed, sp.what)
				require.Equal(t, "true", quoted.Replayed, "%s is another key than in quotes: %+v", sp.what, quoted)
			}
			require.Equal(t, calls, s.count(t, "orders"))
			require.Empty(t, s.told())
		})
	}
}

// The document has every pair.
func TestRequestsDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("requests.md")
	require.NoError(t, err)
	for _, p := range pairs {
		require.Contains(t, string(text), fmt.Sprintf("\n| %s | %s | %s |\n", p.what, p.want, p.why))
	}
}
