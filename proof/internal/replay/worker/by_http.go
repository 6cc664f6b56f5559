package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
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

// serveHTTP serves each tool at POST /{domain}/tools/{name}. In mode Dedup the
// routes of those that write are guarded by httpdedup.
func (s *server) serveHTTP() error {
	for domain, d := range s.domains {
		guard := func(_ string, h http.Handler) http.Handler { return h }
		if s.mode == Dedup {
			// A retry may go to another worker, at another address.
			middleware, err := httpdedup.New(d.deduper, httpdedup.Options{Scope: bearerScope, AnyHost: true})
			if err != nil {
				return err
			}
			guard = middleware.Wrap
		}
		for name, t := range d.tools {
			h := http.Handler(d.toolHandler(t))
			if t.Class != tool.ReadOnly {
				h = guard(name, h)
			}
			s.mux.Handle("POST /"+domain+"/tools/"+name, h)
		}
	}
	return nil
}

func bearerScope(r *http.Request) (string, error) {
	scope, ok := strings.CutPrefix(r.Header.Get("Authorization"), bearer)
	if !ok {
		return "", errors.New("no bearer token")
	}
	return scope, nil
}

// toolHandler runs a tool in the transaction that httpdedup has opened. Where there is none the tool only
// reads, or the mode is Naive. It answers 200 with the result, or 422 with a refusal, which is final.
func (d *domain) toolHandler(t kit.Tool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		args, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "reading the arguments: "+err.Error(), http.StatusBadRequest)
			return
		}
		ctx := kit.WithCallRef(r.Context(), r.Header.Get(refHeader))
		var result json.RawMessage
		if tx, ok := httpdedup.Tx(ctx); ok {
			result, err = t.Run(ctx, tx, args)
		} else {
			result, err = d.naive(ctx, t, args)
		}
		status := http.StatusOK
		if refusal, refused := errors.AsType[*kit.Refusal](err); refused {
			httpdedup.Final(ctx)
			status = http.StatusUnprocessableEntity
			result, err = kit.Marshal(refusal)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(result) // who does not get it asks again
	}
}

// httpClient delivers by HTTP.
type httpClient struct {
	base string
	web  *http.Client
}

// Deliver implements Client. A response that is no JSON of a tool, such as a problem that httpdedup reports, is
// no answer.
func (c *httpClient) Deliver(ctx context.Context, d Delivery) (Answer, error) {
	key, err := d.key()
	if err != nil {
		return Answer{}, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {bearer + d.Scope}, keyHeader: {key}, refHeader: {d.Ref}}
	response, body, err := lab.Ask(ctx, c.web, http.MethodPost, c.base+"/"+d.Domain+"/tools/"+d.Tool, header, d.Args)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Replayed: response.Header.Get(replayedHeader) == "true"}
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
func (c *httpClient) Close() { c.web.CloseIdleConnections() }
