package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/proof/internal/replay/wire"
	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// Headers of a delivery by HTTP. The principal is the bearer token itself: nobody
// but the driver reaches a worker.
const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
	refHeader      = "Call-Ref"
	bearer         = "Bearer "
)

// httpHandler serves each tool at POST /{domain}/tools/{name}. In mode Dedup the
// routes of those that write are guarded by httpdedup.
func httpHandler(e *executor) (http.Handler, error) {
	mux := http.NewServeMux()
	for domain, d := range e.domains {
		guard := func(_ string, h http.Handler) http.Handler { return h }
		if e.mode == Dedup {
			// A retry may go to another worker, at another address.
			middleware, err := httpdedup.New(d.deduper, httpdedup.Options{Scope: bearerScope, AnyHost: true})
			if err != nil {
				return nil, err
			}
			guard = middleware.Wrap
		}
		for name, t := range d.tools {
			h := http.Handler(d.toolHandler(t))
			if t.Class != tool.ReadOnly {
				h = guard(name, h)
			}
			mux.Handle("POST /"+domain+"/tools/"+name, h)
		}
	}
	return mux, nil
}

func bearerScope(r *http.Request) (string, error) {
	scope, ok := strings.CutPrefix(r.Header.Get("Authorization"), bearer)
	if !ok {
		return "", errors.New("no bearer token")
	}
	return scope, nil
}

// toolHandler runs a tool: in the transaction that httpdedup has opened, or in one
// of its own. It answers 200 with the result, or 422 with a refusal, which is
// final.
func (d *domain) toolHandler(t kit.Tool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		args, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "reading the arguments: "+err.Error(), http.StatusBadRequest)
			return
		}
		ctx := effect.WithCallRef(r.Context(), r.Header.Get(refHeader))
		result, err := d.runHTTP(ctx, t, args)
		var refusal *kit.Refusal
		switch {
		case errors.As(err, &refusal):
			httpdedup.Final(ctx)
			writeJSON(w, http.StatusUnprocessableEntity, refusal)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			writeJSON(w, http.StatusOK, result)
		}
	}
}

// runHTTP runs a tool in the transaction of the request. Where there is none the
// tool only reads, or the mode is Naive.
func (d *domain) runHTTP(ctx context.Context, t kit.Tool, args json.RawMessage) (json.RawMessage, error) {
	if tx, ok := httpdedup.Tx(ctx); ok {
		return t.Run(ctx, tx, args)
	}
	return d.naive(ctx, t, args)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	text, err := kit.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // who does not get it asks again
}

// httpClient delivers by HTTP.
type httpClient struct {
	base   string
	client http.Client
}

func newHTTPClient(address string, transport http.RoundTripper) *httpClient {
	return &httpClient{base: "http://" + address, client: http.Client{Transport: transport}}
}

// Deliver implements Client.
func (c *httpClient) Deliver(ctx context.Context, d Delivery) (Answer, error) {
	key, err := dedup.KeyFromToolCall(d.Session, d.Turn, d.ToolCallID)
	if err != nil {
		return Answer{}, err
	}
	r, err := http.NewRequestWithContext(wire.Delivery(ctx), http.MethodPost, c.base+"/"+d.Domain+"/tools/"+d.Tool, bytes.NewReader(d.Args))
	if err != nil {
		return Answer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", bearer+d.Scope)
	r.Header.Set(keyHeader, key)
	r.Header.Set(refHeader, d.Ref)
	response, err := c.client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // it was read to its end, or is broken
	if err != nil {
		return Answer{}, fmt.Errorf("reading the answer: %w", err)
	}
	return readHTTP(response, body, d.ID)
}

// readHTTP makes an answer of a response. What is no JSON of a tool, such as a
// problem that httpdedup tells of, is none.
func readHTTP(response *http.Response, body []byte, id int) (Answer, error) {
	answer := Answer{ID: id, Replayed: response.Header.Get(replayedHeader) == "true"}
	ours := response.Header.Get("Content-Type") == "application/json"
	var refusal kit.Refusal
	switch {
	case ours && response.StatusCode == http.StatusOK:
		answer.Text = kit.Text(body)
		return answer, nil
	case ours && response.StatusCode == http.StatusUnprocessableEntity && json.Unmarshal(body, &refusal) == nil:
		answer.Text = refusal.Answer()
		return answer, nil
	default:
		return Answer{}, fmt.Errorf("status %s: %.300s", response.Status, body)
	}
}

// Close implements Client.
func (c *httpClient) Close() { c.client.CloseIdleConnections() }
