package httpdedup_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// pair is two requests with one key.
type pair struct {
	what string
	a, b wireRequest
	want relation
	why  string
}

// relation says whether the second request repeats the first.
type relation string

const (
	sameCall  relation = "same"    // the second gets the first one's answer
	otherCall relation = "other"   // the second is refused: 422
	noCall    relation = "refused" // the second is not a valid request: 400
)

func bodyOf(contentType, text string) wireRequest {
	r := wireRequest{Body: []byte(text)}
	if contentType != "" {
		r.Headers = [][2]string{{"Content-Type", contentType}}
	}
	return r
}

func jsonOf(text string) wireRequest { return bodyOf("application/json", text) }

func at(target string) wireRequest { return wireRequest{Target: target, Framing: noBody} }

func host(name string) wireRequest { return wireRequest{Host: name, Framing: noBody} }

func (r wireRequest) with(name, value string) wireRequest {
	r.Headers = append(append([][2]string{}, r.Headers...), [2]string{name, value})
	return r
}

func (r wireRequest) framed(f framing) wireRequest {
	r.Framing = f
	return r
}

func (r wireRequest) method(name string) wireRequest {
	r.Method = name
	return r
}

const (
	form        = "application/x-www-form-urlencoded"
	part        = "--%s\r\nContent-Disposition: form-data; name=\"item\"\r\n\r\na\r\n--%[1]s--\r\n"
	gzippedItem = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\xca\x2c\x49\xcd\x55\xb2\x52\x4a\x54\xaa\x05\x00\x03\x62\xf7\x69\x0c\x00\x00\x00" // {"item":"a"}
	tryHeader   = "X-Attempt"
	traceHeader = "Traceparent"
)

// pairs are requests that could be mistaken for each other. Two rules decide. Requests that a
// handler may tell apart are two calls, or the second would be lost. Differences that a retry
// introduces do not count, or the retry would be refused. If the rules conflict, the request is
// refused.
var pairs = []pair{
	{what: "the same bytes", a: jsonOf(`{"item":"a"}`), b: jsonOf(`{"item":"a"}`), want: sameCall, why: "a retry"},
	{what: "members in another order", a: jsonOf(`{"a":1,"b":2}`), b: jsonOf(`{"b":2,"a":1}`), want: sameCall, why: "an object has no order"},
	{what: "white space in JSON", a: jsonOf(`{"a":[1,2]}`), b: jsonOf("\n{ \"a\" : [ 1 , 2 ] }\n"), want: sameCall, why: "it means nothing"},
	{what: "escapes in JSON", a: jsonOf(`{"a":"é/"}`), b: jsonOf(`{"\u0061":"\u00e9\/"}`), want: sameCall, why: "they spell one text"},
	{what: "1, 1.0 and 1e0", a: jsonOf(`{"a":1}`), b: jsonOf(`{"a":1.0e0}`), want: sameCall, why: "they are one number"},
	{what: "a number and a text", a: jsonOf(`{"a":1}`), b: jsonOf(`{"a":"1"}`), want: otherCall, why: "a handler sees a difference"},
	{what: "null and absent", a: jsonOf(`{"a":null}`), b: jsonOf(`{}`), want: otherCall, why: "null clears, absent leaves"},
	{what: "a list in another order", a: jsonOf(`[1,2]`), b: jsonOf(`[2,1]`), want: otherCall, why: "a list has an order"},
	{what: "numbers beyond 2^53", a: jsonOf(`9007199254740993`), b: jsonOf(`9007199254740992`), want: otherCall, why: "every digit counts"},
	{what: "a letter composed and decomposed", a: jsonOf(`"é"`), b: jsonOf("\"e\u0301\""), want: otherCall, why: "they are other code points"},
	{what: "one more member", a: jsonOf(`{"a":1}`), b: jsonOf(`{"a":1,"b":2}`), want: otherCall, why: "it asks for more"},
	{what: "the case of a member's name", a: jsonOf(`{"a":1}`), b: jsonOf(`{"A":1}`), want: otherCall, why: "names have a case"},
	{what: "a member that occurs twice", a: jsonOf(`{"a":1}`), b: jsonOf(`{"a":2,"a":1}`), want: noCall, why: "two parsers read two values"},
	{what: "no body and {}", a: wireRequest{}.framed(noBody), b: jsonOf(`{}`), want: otherCall, why: "a handler sees a difference"},
	{what: "no body and null", a: wireRequest{}.framed(noBody), b: jsonOf(`null`), want: otherCall, why: "a handler sees a difference"},

	{what: "a charset of JSON", a: jsonOf(`{"a":1}`), b: bodyOf("application/json; charset=utf-8", `{"a":1}`), want: sameCall, why: "JSON has no charset"},
	{what: "the case of the type", a: jsonOf(`{"a":1}`), b: bodyOf("Application/JSON", `{"a":1}`), want: sameCall, why: "types have no case"},
	{what: "JSON of another type", a: jsonOf(`{"a":1}`), b: bodyOf("application/merge-patch+json", `{"a":1}`), want: otherCall, why: "it means something else"},
	{what: "JSON without a type", a: jsonOf(`{"a":1}`), b: bodyOf("", `{"a":1}`), want: otherCall, why: "nothing says that it is JSON"},
	{what: "the case of a charset", a: bodyOf("text/plain; charset=utf-8", "a"), b: bodyOf("text/plain; charset=UTF-8", "a"), want: sameCall, why: "charsets have no case"},
	{what: "a charset in quotes", a: bodyOf("text/plain; charset=utf-8", "a"), b: bodyOf(`text/plain;charset="utf-8"`, "a"), want: sameCall, why: "quotes spell one value"},
	{what: "another charset", a: bodyOf("text/plain; charset=utf-8", "a"), b: bodyOf("text/plain; charset=iso-8859-1", "a"), want: otherCall, why: "the bytes mean another text"},
	{what: "a newline behind a text", a: bodyOf("text/plain", "a"), b: bodyOf("text/plain", "a\n"), want: otherCall, why: "bytes count where nothing else is known"},
	{what: "bytes that are no text", a: bodyOf("application/octet-stream", "\x00\xff"), b: bodyOf("application/octet-stream", "\x00\xfe"), want: otherCall, why: "they differ"},

	{what: "a form", a: bodyOf(form, "a=1&b=2"), b: bodyOf(form, "a=1&b=2"), want: sameCall, why: "a retry"},
	{what: "a form in another order", a: bodyOf(form, "a=1&b=2"), b: bodyOf(form, "b=2&a=1"), want: otherCall, why: "a handler may read the order; clients keep it"},
	{what: "a form with other escapes", a: bodyOf(form, "a=b+c"), b: bodyOf(form, "a=b%20c"), want: otherCall, why: "its bytes are compared; one client spells alike"},
	{what: "a multipart form", a: bodyOf("multipart/form-data; boundary=x", fmt.Sprintf(part, "x")), b: bodyOf("multipart/form-data; boundary=x", fmt.Sprintf(part, "x")), want: sameCall, why: "a retry"},
	{what: "a multipart form with another boundary", a: bodyOf("multipart/form-data; boundary=x", fmt.Sprintf(part, "x")), b: bodyOf("multipart/form-data; boundary=y", fmt.Sprintf(part, "y")), want: otherCall, why: "parts are not read; keep the body, and send that again"},

	{what: "gzip", a: bodyOf("application/json", gzippedItem).with("Content-Encoding", "gzip"), b: bodyOf("application/json", gzippedItem).with("Content-Encoding", "GZIP"), want: sameCall, why: "names of encodings have no case"},
	{what: "gzip and plain", a: jsonOf(`{"item":"a"}`), b: bodyOf("application/json", gzippedItem).with("Content-Encoding", "gzip"), want: otherCall, why: "nothing is decompressed here"},
	{what: "identity and no encoding", a: jsonOf(`{"a":1}`), b: jsonOf(`{"a":1}`).with("Content-Encoding", "identity"), want: sameCall, why: "identity is none"},

	{what: "with a length and in chunks", a: jsonOf(`{"a":1}`), b: jsonOf(`{"a":1}`).framed(chunked), want: sameCall, why: "framing is the connection's"},
	{what: "in one chunk and in many", a: bodyOf("text/plain", "abc").framed(chunked), b: bodyOf("text/plain", "abc").framed(inPieces), want: sameCall, why: "framing is the connection's"},
	{what: "no body and empty chunks", a: wireRequest{}.framed(noBody), b: wireRequest{}.framed(chunked), want: sameCall, why: "both are empty"},
	{what: "no body and a length of 0", a: wireRequest{}.framed(noBody), b: wireRequest{}.framed(byLength), want: sameCall, why: "both are empty"},
	{what: "an empty body with a type", a: wireRequest{}.framed(noBody), b: jsonOf("").framed(byLength), want: sameCall, why: "a type of nothing says nothing"},
	{what: "empty chunks and a body", a: wireRequest{}.framed(chunked), b: bodyOf("text/plain", "a").framed(chunked), want: otherCall, why: "one of them asks for something"},

	{what: "the query in another order", a: at("/orders?a=1&b=2"), b: at("/orders?b=2&a=1"), want: sameCall, why: "names have no order among themselves"},
	{what: "escapes in the query", a: at("/orders?a=b%20c"), b: at("/orders?%61=b+c"), want: sameCall, why: "they spell one value"},
	{what: "a name without a value", a: at("/orders?a"), b: at("/orders?a="), want: sameCall, why: "both are an empty value"},
	{what: "another value in the query", a: at("/orders?a=1"), b: at("/orders?a=2"), want: otherCall, why: "it asks for something else"},
	{what: "values of one name in another order", a: at("/orders?a=1&a=2"), b: at("/orders?a=2&a=1"), want: otherCall, why: "handlers take the first, or the last"},
	{what: "a value that occurs twice", a: at("/orders?a=1"), b: at("/orders?a=1&a=1"), want: otherCall, why: "a handler may count"},
	{what: "an empty query", a: at("/orders"), b: at("/orders?"), want: sameCall, why: "there is none"},
	{what: "a semicolon in the query", a: at("/orders"), b: at("/orders?a=1;b=2"), want: noCall, why: "two parsers read two queries"},

	{what: "another path", a: at("/orders/1"), b: at("/orders/2"), want: otherCall, why: "it is about something else"},
	{what: "a slash at the end", a: at("/orders"), b: at("/orders/"), want: otherCall, why: "a router sees a difference"},
	{what: "an escaped slash", a: at("/a/b"), b: at("/a%2Fb"), want: otherCall, why: "a router sees a difference"},
	{what: "an escaped letter", a: at("/ab"), b: at("/a%62"), want: otherCall, why: "some routers see a difference; a client spells its retries alike"},
	{what: "the case of the path", a: at("/orders"), b: at("/Orders"), want: otherCall, why: "paths have a case"},
	{what: "a dot in the path", a: at("/orders"), b: at("/./orders"), want: otherCall, why: "the path is taken as sent"},
	{what: "two slashes", a: at("/a/b"), b: at("/a//b"), want: otherCall, why: "a router sees a difference"},

	{what: "another host", a: host("shop-a.example"), b: host("shop-b.example"), want: otherCall, why: "it may be another shop"},
	{what: "the case of the host", a: host("shop.example"), b: host("Shop.Example"), want: sameCall, why: "hosts have no case"},
	{what: "the port that is meant anyway", a: host("shop.example"), b: host("shop.example:80"), want: sameCall, why: "it is the scheme's own"},
	{what: "another port", a: host("shop.example"), b: host("shop.example:8080"), want: otherCall, why: "it may be another service"},

	{what: "another method", a: jsonOf(`{"a":1}`), b: jsonOf(`{"a":1}`).method(http.MethodPut), want: otherCall, why: "it does something else"},
	{what: "the number of the try", a: jsonOf(`{"a":1}`).with(tryHeader, "1"), b: jsonOf(`{"a":1}`).with(tryHeader, "2"), want: sameCall, why: "a retry sends it anew"},
	{what: "another trace", a: jsonOf(`{"a":1}`).with(traceHeader, "00-1"), b: jsonOf(`{"a":1}`).with(traceHeader, "00-2"), want: sameCall, why: "a retry sends it anew"},
	{what: "a cookie", a: jsonOf(`{"a":1}`), b: jsonOf(`{"a":1}`).with("Cookie", "a=1"), want: sameCall, why: "who asks is up to the scope"},
	{what: "another language", a: jsonOf(`{"a":1}`).with("Accept-Language", "de"), b: jsonOf(`{"a":1}`).with("Accept-Language", "en"), want: sameCall, why: "the answer of the first is the answer"},
}

func TestPairsOfRequests(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(pairs), 40)
	for name, send := range wireClients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := wireServer(t)
			var requests []wireRequest
			for i, p := range pairs {
				key := fmt.Sprintf(`"pair %d"`, i)
				requests = append(requests, p.a.keyed(key), p.b.keyed(key))
			}
			answers := send(t, url, requests)
			require.Len(t, answers, len(requests))
			for i, p := range pairs {
				first, second := answers[2*i], answers[2*i+1]
				require.Equal(t, http.StatusOK, first.Status, "%s: %+v", p.what, first)
				require.Empty(t, first.Replayed, p.what)
				got := noCall
				switch {
				case second.Status == http.StatusOK && second.Replayed == "true":
					got = sameCall
				case second.Status == http.StatusUnprocessableEntity && second.problemType() == "key-reused":
					got = otherCall
				default:
					require.Equal(t, http.StatusBadRequest, second.Status, "%s: %+v", p.what, second)
				}
				require.Equal(t, p.want, got, "%s, because %s: %+v", p.what, p.why, second)
			}
			require.Equal(t, len(pairs), s.count(t, "orders"))
			require.Empty(t, s.told())
		})
	}
}
