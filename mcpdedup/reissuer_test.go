package mcpdedup_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/mcpdedup"
)

// reissuer stands before a server as a client does that sends keys: every call of a
// tool gets one, and when its answer has passed, it is issued again as a new request,
// with a new id and the same key.
type reissuer struct {
	url string

	mu       sync.Mutex
	calls    int      // with a complete result
	faults   []string // what differed
	repeated sync.WaitGroup
}

func newReissuer(t *testing.T, target string) *reissuer {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	r := &reissuer{}
	wire := &http.Transport{}
	t.Cleanup(wire.CloseIdleConnections)
	client := &http.Client{Transport: wire}
	proxy := &httputil.ReverseProxy{
		Transport:     wire,
		FlushInterval: -1, // a stream is passed on as it comes
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.Out.Host = p.In.Host // the suite sends foreign ones
		},
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		keyed, id := r.keyed(body)
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(keyed)), int64(len(keyed))
		if id == nil {
			proxy.ServeHTTP(w, req)
			return
		}
		r.repeated.Add(1)
		defer r.repeated.Done()
		seen := &copyingWriter{ResponseWriter: w}
		pass(proxy, seen, req)
		first, answered := resultIn(seen.copy.Bytes(), string(id))
		if first != nil || !answered && seen.status == http.StatusOK {
			r.reissue(client, target, req.Header, keyed, first)
		}
	}))
	t.Cleanup(front.Close)
	r.url = front.URL
	return r
}

// keyed puts a key into the call of a tool, and returns the request's id. Anything else
// stays as it is.
func (r *reissuer) keyed(body []byte) (_ []byte, id json.RawMessage) {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params map[string]any  `json:"params"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if dec.Decode(&call) != nil || call.Method != "tools/call" || call.ID == nil {
		return body, nil
	}
	meta, _ := call.Params["_meta"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta[mcpdedup.MetaKey] = dedup.NewKey()
	call.Params["_meta"] = meta
	keyed, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": call.ID, "method": call.Method, "params": call.Params})
	if err != nil {
		return body, nil
	}
	return keyed, call.ID
}

// pass serves a request to its end, also if the client goes away before that.
func pass(proxy http.Handler, w http.ResponseWriter, req *http.Request) {
	defer func() {
		if gone := recover(); gone != nil && gone != http.ErrAbortHandler {
			panic(gone)
		}
	}()
	proxy.ServeHTTP(w, req)
}

// reissue makes a call again and compares its result with the first one, which is nil
// where the stream has ended without an answer. Where there are sessions, it makes the
// call in a new one.
func (r *reissuer) reissue(client *http.Client, target string, header http.Header, call []byte, first *result) {
	header = header.Clone()
	if version := header.Get("Mcp-Protocol-Version"); header.Get("Mcp-Session-Id") != "" {
		header.Del("Mcp-Session-Id")
		opened, _, err := post(client, target, header, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"initialize",
			"params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"again","version":"1"}}}`, version))
		if err != nil {
			r.fault("opening a session: %v", err)
			return
		}
		header.Set("Mcp-Session-Id", opened.Get("Mcp-Session-Id"))
		if _, _, err := post(client, target, header, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
			r.fault("opening a session: %v", err)
			return
		}
	}
	var again map[string]json.RawMessage
	_ = json.Unmarshal(call, &again) // keyed has written it
	const id = `"issued again"`
	again["id"] = json.RawMessage(id)
	body, _ := json.Marshal(again)
	_, answer, err := post(client, target, header, body)
	second, _ := resultIn(answer, id)
	r.mu.Lock()
	r.calls++
	r.mu.Unlock()
	switch {
	case err != nil || second == nil:
		r.fault("no result of a repeat: %v: %s", err, answer)
	case first == nil:
	case first.duplicate() != "false" || second.duplicate() != "true":
		r.fault("duplicate is %s at first and %s of the repeat", first.duplicate(), second.duplicate())
	case first.Content != second.Content || first.StructuredContent != second.StructuredContent:
		r.fault("%+v at first and %+v of the repeat", first, second)
	}
}

func post(client *http.Client, target string, header http.Header, body []byte) (http.Header, []byte, error) {
	req, err := http.NewRequest(http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header = header.Clone()
	res, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.Header, answer, err
}

func (r *reissuer) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// requireOneEffectEach asks for as many effects as there were calls with a result.
func (r *reissuer) requireOneEffectEach(t *testing.T, d suiteDB) {
	t.Helper()
	r.repeated.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.faults)
	require.Equal(t, r.calls, d.count(t, "effects"))
	require.Equal(t, r.calls, d.count(t, "tool_dedup"))
}

// result is what the answer to a call says, as it is written.
type result struct {
	Content, StructuredContent string
	Meta                       map[string]json.RawMessage
}

func (r *result) duplicate() string { return string(r.Meta[door.MetaDuplicate]) }

// resultIn finds the answer to a request, in JSON or in a stream of events, and in it a
// result that is recorded: an error and a demand for more input are none.
func resultIn(text []byte, id string) (_ *result, answered bool) {
	for line := range strings.Lines(string(text)) {
		var message struct {
			ID     json.RawMessage
			Method string // of a request of the server's own, which may have the same id
			Result *struct {
				Content, StructuredContent json.RawMessage
				Meta                       map[string]json.RawMessage `json:"_meta"`
				IsError                    bool
				ResultType                 string
			}
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &message) != nil || string(message.ID) != id || message.Method != "" {
			continue
		}
		if m := message.Result; m != nil && !m.IsError && m.ResultType != "input_required" {
			return &result{string(m.Content), string(m.StructuredContent), m.Meta}, true
		}
		return nil, true
	}
	return nil, false
}

// copyingWriter keeps a copy of what passes to a client.
type copyingWriter struct {
	http.ResponseWriter
	status int
	copy   bytes.Buffer
}

func (w *copyingWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *copyingWriter) Write(p []byte) (int, error) {
	w.copy.Write(p)
	return w.ResponseWriter.Write(p)
}

// Unwrap lets a stream be flushed.
func (w *copyingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
