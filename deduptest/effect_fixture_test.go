package deduptest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
	"github.com/tooldedup/dedup/external"
)

type refund struct {
	Order string `json:"order"`
}

type refunded struct {
	ID string `json:"id"`
}

// refundAPI is a fake of a provider's API.
func refundAPI(p *deduptest.Provider) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /refunds", func(w http.ResponseWriter, r *http.Request) {
		var in request
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		act(w, p, r.Header.Get("Idempotency-Key"), in.Reference)
	})
	mux.HandleFunc("POST /refunds/{reference}/confirm", func(w http.ResponseWriter, r *http.Request) {
		act(w, p, r.Header.Get("Idempotency-Key"), r.PathValue("reference"))
	})
	mux.HandleFunc("GET /refunds", func(w http.ResponseWriter, r *http.Request) {
		ids, err := p.Find(r.URL.Query().Get("reference"))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		found := []refunded{}
		for _, id := range ids {
			found = append(found, refunded{id})
		}
		_ = json.NewEncoder(w).Encode(found)
	})
	return mux
}

// act answers as many providers do.
func act(w http.ResponseWriter, p *deduptest.Provider, key, reference string) {
	id, err := p.Act(key, reference)
	for is, status := range map[error]int{
		deduptest.ErrRefused: http.StatusPaymentRequired, deduptest.ErrConflict: http.StatusConflict,
		deduptest.ErrBusy: http.StatusTooManyRequests, deduptest.ErrFault: http.StatusInternalServerError,
	} {
		if errors.Is(err, is) {
			http.Error(w, is.Error(), status)
			return
		}
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(refunded{id})
}

type request struct {
	refund
	Reference string `json:"reference"`
}

// refunds is a client of that API, as a tool's author would write it.
type refunds struct {
	url  string
	http *http.Client
	// reference is the value that a refund is looked up by. Default: the attempt's key.
	reference func(key string, in refund) string
	bodyless  bool // confirms an existing refund without a body
	pool      *pgxpool.Pool
}

func (c *refunds) marker(key string, in refund) string {
	if c.reference != nil {
		return c.reference(key, in)
	}
	return key
}

var errDeclined = errors.New("the refund was declined")

func (c *refunds) send(ctx context.Context, key string, in refund) (out refunded, err error) {
	body, err := json.Marshal(request{in, c.marker(key, in)})
	if err != nil {
		return out, external.NotDone(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/refunds", bytes.NewReader(body))
	if c.bodyless {
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/refunds/"+c.marker(key, in)+"/confirm", nil)
	}
	if err != nil {
		return out, external.NotDone(err)
	}
	req.Header.Set("Idempotency-Key", key)
	res, err := c.http.Do(req)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		return out, json.NewDecoder(res.Body).Decode(&out)
	case http.StatusPaymentRequired:
		return out, dedup.Final(errDeclined)
	case http.StatusTooManyRequests:
		return out, external.NotDone(errors.New(res.Status))
	}
	return out, errors.New(res.Status)
}

func (c *refunds) find(ctx context.Context, key string, in refund) (all []refunded, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/refunds?reference="+c.marker(key, in), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return all, json.NewDecoder(res.Body).Decode(&all)
}

// refundEffect is a tool on the fake without guarantees.
func refundEffect(t *testing.T, name string, p *deduptest.Provider) (*refunds, deduptest.Effect[refund, refunded]) {
	t.Helper()
	server := httptest.NewServer(refundAPI(p))
	t.Cleanup(server.Close)
	c := &refunds{url: server.URL, http: &http.Client{Transport: &external.Transport{Base: &http.Transport{}}}}
	return c, deduptest.Effect[refund, refunded]{
		Provider: p, In: func(n int) refund { return refund{fmt.Sprint("order-", n)} },
		Tool: external.Tool[refund, refunded]{
			Name: name, Ref: func(out refunded) string { return out.ID },
			Perform: func(ctx context.Context, a external.Attempt, in refund) (refunded, error) {
				return c.send(ctx, a.Key, in)
			},
		},
	}
}

// finding adds a look-up to the tool.
func finding(c *refunds, e *deduptest.Effect[refund, refunded], settles time.Duration) {
	e.Tool.Settles = settles
	e.Tool.Find = func(ctx context.Context, a external.Attempt, in refund) ([]refunded, error) {
		return c.find(ctx, a.Key, in)
	}
}
