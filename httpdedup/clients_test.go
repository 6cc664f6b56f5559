package httpdedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// wireRequest is a request that a client sends.
type wireRequest struct {
	Method  string      `json:"method"`
	Target  string      `json:"target"`
	Host    string      `json:"host,omitempty"`
	Headers [][2]string `json:"headers"`
	Body    []byte      `json:"body"`
	Framing framing     `json:"framing"`
}

// framing says how a client marks the end of a body.
type framing string

const (
	byLength framing = "length"
	chunked  framing = "chunked"
	inPieces framing = "pieces"
	noBody   framing = "none"
)

// wireAnswer is the answer that a client got, or the reason why it did not send the request.
type wireAnswer struct {
	Status   int
	Replayed string
	Body     string
	Error    string
}

// problemType returns the name of the problem in an answer, or "" if there is none.
func (a wireAnswer) problemType() string {
	var p problem
	_ = json.Unmarshal([]byte(a.Body), &p)
	return strings.TrimPrefix(p.Type, problemBase)
}

// wireClients are clients in several languages. Each sends its requests one after the other to its
// own server, and reports each answer. Only Go's client needs no program that may be missing.
var wireClients = map[string]func(t *testing.T, url string, requests []wireRequest) []wireAnswer{
	"Go's net/http": byGo(func(p *http.Protocols) { p.SetHTTP1(true) }),
	"Go's with h2c": byGo(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }),
	"Node's http":   func(t *testing.T, url string, all []wireRequest) []wireAnswer { return byNode(t, "http", url, all) },
	"Node's http2":  func(t *testing.T, url string, all []wireRequest) []wireAnswer { return byNode(t, "http2", url, all) },
	"Node's fetch":  func(t *testing.T, url string, all []wireRequest) []wireAnswer { return byNode(t, "fetch", url, all) },
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

func byGo(set func(*http.Protocols)) func(*testing.T, string, []wireRequest) []wireAnswer {
	return func(t *testing.T, url string, requests []wireRequest) (answers []wireAnswer) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
		set(client.Transport.(*http.Transport).Protocols)
		defer client.CloseIdleConnections()
		for _, r := range requests {
			answers = append(answers, readWire(client.Do(r.goRequest(t, url))))
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

func readWire(res *http.Response, err error) wireAnswer {
	if err != nil {
		return wireAnswer{Error: err.Error()}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return wireAnswer{Error: err.Error()}
	}
	return wireAnswer{Status: res.StatusCode, Replayed: res.Header.Get("Idempotency-Replayed"), Body: string(body)}
}

func byNode(t *testing.T, client, url string, requests []wireRequest) (answers []wireAnswer) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed: the middleware was not tried with its clients")
	}
	input, err := json.Marshal(map[string]any{"url": url, "client": client, "requests": requests})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "testdata/clients.mjs")
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &answers), string(out))
	return answers
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
