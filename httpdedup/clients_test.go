package httpdedup_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// wireRequest is a request that a client sends.
type wireRequest struct {
	Method, Target, Host string
	Headers              [][2]string
	Body                 []byte
	Framing              framing
}

// framing says how a client marks the end of a body.
type framing string

const (
	byLength framing = "length"
	chunked  framing = "chunked"
	inPieces framing = "pieces"
	noBody   framing = "none"
)

// wireAnswer is the answer that a client got.
type wireAnswer struct {
	Status         int
	Replayed, Body string
}

// problemType returns the name of the problem in an answer, or "" if there is none.
func (a wireAnswer) problemType() string {
	var p problem
	_ = json.Unmarshal([]byte(a.Body), &p)
	return strings.TrimPrefix(p.Type, problemBase)
}

// wireClients are clients over both versions of HTTP. Each sends its requests one after the other
// to its own server, and returns the answers.
var wireClients = map[string]func(t *testing.T, url string, requests []wireRequest) []wireAnswer{
	"HTTP1": over(func(p *http.Protocols) { p.SetHTTP1(true) }),
	"HTTP2": over(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }),
}

// wireServer serves one wrapped handler for every path, over HTTP/1.1 and HTTP/2.
func wireServer(t *testing.T) (*shop, string) {
	t.Helper()
	s := open(t, httpdedup.Options{})
	handler := s.m.Wrap("anything", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = insert(r.Context(), fmt.Sprintf("%d bytes", len(body)))
		}
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	// A refusal may be sent before the body was read. A client sometimes reports an HTTP/2 stream
	// that ends in this way as a failure.
	reading := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := r.Body
		handler.ServeHTTP(w, r)
		_, _ = io.Copy(io.Discard, body)
	})
	srv := httptest.NewUnstartedServer(reading) // without a mux, which would clean paths
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	return s, srv.URL
}

func over(set func(*http.Protocols)) func(*testing.T, string, []wireRequest) []wireAnswer {
	return func(t *testing.T, url string, requests []wireRequest) (answers []wireAnswer) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
		set(client.Transport.(*http.Transport).Protocols)
		defer client.CloseIdleConnections()
		for _, r := range requests {
			answers = append(answers, readWire(t, client, r.goRequest(t, url)))
		}
		return answers
	}
}

func (r wireRequest) goRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	var body io.Reader
	switch r.Framing {
	case noBody:
	case inPieces:
		body = iotest.OneByteReader(bytes.NewReader(r.Body))
	default:
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.Method, url+r.Target, body)
	require.NoError(t, err)
	req.Host = r.Host
	for _, h := range r.Headers {
		req.Header[h[0]] = append(req.Header[h[0]], h[1]) // keeps the spelling of the name
	}
	if r.Framing == chunked || r.Framing == inPieces {
		req.ContentLength, req.TransferEncoding = -1, []string{"chunked"}
	}
	return req
}

func readWire(t *testing.T, client *http.Client, req *http.Request) wireAnswer {
	t.Helper()
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return wireAnswer{Status: res.StatusCode, Replayed: res.Header.Get("Idempotency-Replayed"), Body: string(body)}
}

// keyed adds the headers that every request has.
func (r wireRequest) keyed(key ...string) wireRequest {
	headers := [][2]string{{"Authorization", "Bearer acme"}}
	for _, line := range key {
		headers = append(headers, [2]string{"Idempotency-Key", line})
	}
	r.Headers = append(headers, r.Headers...)
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	if r.Target == "" {
		r.Target = "/orders"
	}
	if r.Framing == "" {
		r.Framing = byLength
	}
	return r
}
