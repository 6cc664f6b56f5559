package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
	"github.com/tooldedup/dedup/tool"
)

// Headers of a delivery by HTTP. The bearer token is the principal itself: only the driver reaches
// a worker.
const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
	refHeader      = "Call-Ref"
	bearer         = "Bearer "
)

// serveHTTP serves each tool at POST /{domain}/tools/{name}. In mode Dedup httpdedup wraps the
// routes of writes.
func (s *server) serveHTTP() error {
	for domain, d := range s.domains {
		wrap := func(_ string, h http.Handler) http.Handler { return h }
		if s.mode == Dedup {
			// A retry may reach another worker at another address.
			middleware, err := httpdedup.New(s.deduper, httpdedup.Options{Scope: bearerScope, AnyHost: true})
			if err != nil {
				return err
			}
			wrap = middleware.Wrap
		}
		for name, t := range d.tools {
			h := http.Handler(d.toolHandler(t))
			if t.Class != tool.ReadOnly {
				h = wrap(name, h)
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

// toolHandler runs a tool in httpdedup's transaction. Without one the tool is a read, or the mode
// is Naive. It answers 200 with the result, or 422 with a refusal, which is final.
func (d *domain) toolHandler(t ledger.Tool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := ledger.WithRef(r.Context(), r.Header.Get(refHeader))
		var out ledger.Out
		var err error
		if tx, ok := httpdedup.Tx(ctx); ok {
			out, err = t.Run(ctx, tx)
		} else {
			out, err = d.naive(ctx, t)
		}
		status := http.StatusOK
		if refusal, refused := errors.AsType[*ledger.Refusal](err); refused {
			httpdedup.Final(ctx)
			status, out, err = http.StatusUnprocessableEntity, ledger.Out{Text: refusal.Text}, nil
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		result, _ := json.Marshal(out) // a text and a number
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(result) // a caller without the answer asks again
	}
}

// httpClient delivers by HTTP.
type httpClient struct {
	base string
	web  *http.Client
}

// Deliver implements Client. A response that is not a tool's JSON, such as a problem of httpdedup,
// is no answer.
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
	answer.Refused = response.StatusCode == http.StatusUnprocessableEntity
	var out ledger.Out
	if !ours || response.StatusCode != http.StatusOK && !answer.Refused || json.Unmarshal(body, &out) != nil {
		return Answer{}, fmt.Errorf("status %s: %.300s", response.Status, body)
	}
	answer.Text, answer.Entry = out.Text, out.Entry
	return answer, nil
}

// Close implements Client.
func (c *httpClient) Close() { c.web.CloseIdleConnections() }
