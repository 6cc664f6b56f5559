package httpdedup

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// asked is a request in the tests' notation: the target, the headers that count, and the body.
type asked struct{ method, target, contentType, encoding, body string } // target may begin with a host

func (a asked) fingerprint(t testing.TB) (dedup.Fingerprint, error) {
	t.Helper()
	r := httptest.NewRequest(a.method, a.target, nil)
	if a.contentType != "" {
		r.Header.Set("Content-Type", a.contentType)
	}
	if a.encoding != "" {
		r.Header.Set("Content-Encoding", a.encoding)
	}
	args, err := requestArgs(r, []byte(a.body), true)
	if err != nil {
		return dedup.Fingerprint{}, err
	}
	return dedup.FingerprintOf(args)
}

// Requests in one line are the same, and requests in two lines differ. TestPairsOfRequests has the
// requests that clients send; these are spellings that no client sends.
func TestRequestArgs(t *testing.T) {
	t.Parallel()
	const js = "application/json"
	groups := [][]asked{
		{{"POST", "http://[::1]/a", "", "", ""}, {"POST", "http://[::1]:80/a", "", "", ""}, {"POST", "http://[::1]:443/a", "", "", ""}},
		{{"POST", "http://[::80]/a", "", "", ""}},
		{{"POST", "/a?x=%ff", "", "", ""}},
		{{"POST", "/a?x=%fe", "", "", ""}},
		{{"POST", "/a", js, "", `{"body":1}`}},
		{{"POST", "/a", js, "", `{"":1}`}},
		{{"POST", "/a", js, "", `1`}},
		{{"POST", "/a", js, "", `{"Method":"PUT"}`}},
		{{"POST", "/a", js, "", `{"a<b>&":"<>&"}`}, {"POST", "/a", js, "", `{"a\u003cb>\u0026":"\u003c>&"}`}},
		{{"POST", "/a", js, "gzip", `{}`}},
		{{"POST", "/a", js, "br", `{}`}, {"POST", "/a", js, "BR", `{}`}},
		{{"POST", "/a", "text/plain; charset=utf-8; version=a", "", `{}`}},
		{{"POST", "/a", "text/plain; charset=utf-8; version=A", "", `{}`}},
	}
	seen := map[dedup.Fingerprint]asked{}
	for _, group := range groups {
		first, err := group[0].fingerprint(t)
		require.NoError(t, err, group[0])
		other, taken := seen[first]
		require.False(t, taken, "%v is %v", group[0], other)
		seen[first] = group[0]
		for _, same := range group[1:] {
			fp, err := same.fingerprint(t)
			require.NoError(t, err, same)
			require.Equal(t, first, fp, "%v and %v", group[0], same)
		}
	}
}

// FuzzBody checks three rules. A JSON body is accepted exactly if dedup accepts it. Its spelling
// does not count. Of other bodies every byte counts.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":[null,true,"x\u00e9"]}`, `{}`, `[]`, `1e5`, `"s"`, `{"a":1,"a":2}`, `{"a":`, "\xff", `{"":{"":0}}`,
		`{"body":{},"Method":"PUT"}`, ` {"a<":"\u2028"} `, `[1.50,0.15e1]`, `{"\ud800":1}`, `-0`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 {
			return
		}
		js := asked{"POST", "/a", "application/json", "", string(body)}
		fp, err := js.fingerprint(t)
		_, want := dedup.FingerprintOf(json.RawMessage(body))
		if (err == nil) != (want == nil) {
			t.Fatalf("%q: %v, and dedup says %v", body, err, want)
		}
		if err != nil {
			var refused *refusal
			if !errors.As(err, &refused) || refused.Name != kindInvalidBody.Name {
				t.Fatalf("%q: %v", body, err)
			}
		} else {
			spelled, err := door.JSON(json.RawMessage(body))
			if err != nil {
				t.Fatal(err)
			}
			js.body = " " + string(spelled) + "\n"
			if again, err := js.fingerprint(t); err != nil || again != fp {
				t.Fatalf("%q and %q differ: %v", body, js.body, err)
			}
		}
		plain := asked{"POST", "/a", "", "", string(body)}
		bytesFP, err := plain.fingerprint(t)
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		plain.body += " "
		if other, err := plain.fingerprint(t); err != nil || other == bytesFP || bytesFP == fp {
			t.Fatalf("%q: bytes do not count, %v", body, err)
		}
	})
}
