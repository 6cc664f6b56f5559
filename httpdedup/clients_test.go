package httpdedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// wireRequest is a request as a client is told to send it.
type wireRequest struct {
	Method  string      `json:"method"`
	Target  string      `json:"target"`
	Host    string      `json:"host,omitempty"`
	Headers [][2]string `json:"headers"`
	Body    []byte      `json:"body"`
	Framing framing     `json:"framing"`
}

// framing says how the end of a body is told.
type framing string

const (
	byLength framing = "length"
	chunked  framing = "chunked"
	inPieces framing = "pieces"
	noBody   framing = "none"
)

// wireAnswer is what the client got, or why it did not send the request.
type wireAnswer struct {
	Status   int
	Replayed string
	Body     string
	Error    string
}

// problemType is the name of the problem that an answer is, "" of any other.
func (a wireAnswer) problemType() string {
	var p problem
	_ = json.Unmarshal([]byte(a.Body), &p)
	return strings.TrimPrefix(p.Type, problemBase)
}

// wireClients are clients of several languages. Each sends its requests one after the other,
// to a server of its own, and says how it answers each. Go's needs no program that may not be installed.
var wireClients = map[string]func(t *testing.T, url string, requests []wireRequest) []wireAnswer{
	"Go's net/http": byGo,
	"curl": func(t *testing.T, url string, all []wireRequest) []wireAnswer {
		return byCurl(t, "--http1.1", url, all)
	},
	"curl with h2c": func(t *testing.T, url string, all []wireRequest) []wireAnswer {
		return byCurl(t, "--http2-prior-knowledge", url, all)
	},
	"Node's http":  func(t *testing.T, url string, all []wireRequest) []wireAnswer { return byNode(t, "http", url, all) },
	"Node's http2": func(t *testing.T, url string, all []wireRequest) []wireAnswer { return byNode(t, "http2", url, all) },
	"Node's fetch": func(t *testing.T, url string, all []wireRequest) []wireAnswer { return byNode(t, "fetch", url, all) },
}

// wireServer serves one guarded handler for every path, over HTTP/1.1 and HTTP/2.
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
	// A refusal may come before the body was read. curl takes an HTTP/2 stream that ends so for a
	// failure, now and then.
	reading := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := r.Body
		handler.ServeHTTP(w, r)
		_, _ = io.Copy(io.Discard, body)
	})
	srv := httptest.NewUnstartedServer(reading) // no mux, which would clean paths
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	return s, srv.URL
}

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed: the middleware was not tried with its clients", program)
	}
}

func byGo(t *testing.T, url string, requests []wireRequest) (answers []wireAnswer) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, r := range requests {
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
			req.Header[h[0]] = append(req.Header[h[0]], h[1]) // with the name as it is spelled
		}
		if r.Framing == chunked || r.Framing == inPieces {
			req.ContentLength, req.TransferEncoding = -1, []string{"chunked"}
		}
		answers = append(answers, readWire(client.Do(req)))
	}
	return answers
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
	needs(t, "node")
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

func byCurl(t *testing.T, version, url string, requests []wireRequest) (answers []wireAnswer) {
	t.Helper()
	needs(t, "curl")
	folder := t.TempDir()
	for _, r := range requests {
		args := []string{
			version, "--silent", "--show-error", "--noproxy", "*", "--max-time", "60", "--path-as-is", "--globoff", "--request", r.Method,
			"--output", filepath.Join(folder, "answer"), "--write-out", `{"status":%{http_code},"replayed":"%header{idempotency-replayed}"}`,
			"--header", "Expect:", "--header", "Accept:", "--header", "User-Agent:",
		}
		if r.Host != "" {
			args = append(args, "--header", "Host: "+r.Host)
		}
		typed := false
		for _, h := range r.Headers {
			line := h[0] + ": " + h[1]
			if strings.TrimSpace(h[1]) == "" {
				line = h[0] + ";" // curl's way to send an empty one
			}
			args = append(args, "--header", line)
			typed = typed || h[0] == "Content-Type"
		}
		if r.Framing != noBody {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "body"), r.Body, 0o600))
			args = append(args, "--data-binary", "@"+filepath.Join(folder, "body"))
			if !typed {
				args = append(args, "--header", "Content-Type:") // or curl calls it a form
			}
		}
		if r.Framing == chunked || r.Framing == inPieces {
			args = append(args, "--header", "Transfer-Encoding: chunked")
		}
		_ = os.Remove(filepath.Join(folder, "answer"))
		out, err := exec.CommandContext(t.Context(), "curl", append(args, url+r.Target)...).Output()
		for tries := 1; tries < 10 && exitCode(err) == 92; tries++ {
			// An answer that is sent before the body was read is followed by a reset (RFC 9113,
			// section 8.1), which some versions of curl take for a failure.
			out, err = exec.CommandContext(t.Context(), "curl", append(args, url+r.Target)...).Output()
		}
		var a wireAnswer
		if err != nil {
			a.Error = err.Error()
		} else {
			require.NoError(t, json.Unmarshal(out, &a), string(out))
			body, err := os.ReadFile(filepath.Join(folder, "answer"))
			require.True(t, err == nil || os.IsNotExist(err))
			a.Body = string(body)
		}
		answers = append(answers, a)
	}
	return answers
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// keyed adds what every request has.
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
