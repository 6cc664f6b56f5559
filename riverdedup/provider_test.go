package riverdedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
	"github.com/tooldedup/dedup/external"
)

// provider sends mails over HTTP, in its own process if the workers are processes. A known key gets
// the first reply again.
type provider struct {
	*httptest.Server
	deduptest.Provider

	// before runs ahead of every request, and after when the mail has been sent. A status other
	// than 0 is the reply; lost drops the reply.
	before, after func(order int) (status int)
}

const lost = -1

func newProvider(t *testing.T) *provider {
	t.Helper()
	none := func(int) int { return 0 }
	p := &provider{Provider: deduptest.Provider{KeyKept: external.Forever}, before: none, after: none}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	var in mail
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status := p.before(in.Order)
	var out sent
	if status == 0 {
		out.ID, _ = p.Act(r.Header.Get("Idempotency-Key"), strconv.Itoa(in.Order)) // fails as before and after order
		status = p.after(in.Order)
	}
	switch status {
	case 0:
		_ = json.NewEncoder(w).Encode(out)
	case lost:
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.Close()
		}
	default:
		w.WriteHeader(status)
	}
}

// sentFor returns how many mails an order got.
func (p *provider) sentFor(order int) int { return len(p.Book(strconv.Itoa(order))) }

type mail struct {
	Order int `json:"order"`
}

type sent struct {
	ID string `json:"id"`
}

// mailTool sends a mail. A letter has no key, so a lost reply cannot be looked up.
func mailTool(name, url string) external.Tool[mail, sent] {
	keys := name == "send_mail"
	client := &http.Client{Transport: &external.Transport{Base: &http.Transport{DisableKeepAlives: true}}}
	tool := external.Tool[mail, sent]{
		Name: name, Timeout: time.Minute,
		Perform: func(ctx context.Context, a external.Attempt, in mail) (out sent, err error) {
			body, err := json.Marshal(in)
			if err != nil {
				return out, err
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
			if err != nil {
				return out, err
			}
			if keys {
				req.Header.Set("Idempotency-Key", a.Key)
			}
			res, err := client.Do(req)
			if err != nil {
				return out, err
			}
			defer res.Body.Close()
			switch res.StatusCode {
			case http.StatusOK:
				return out, json.NewDecoder(res.Body).Decode(&out)
			case http.StatusTooManyRequests:
				return out, external.NotDone(errors.New(res.Status))
			case http.StatusUnprocessableEntity:
				return out, dedup.Final(errors.New("no such address"))
			}
			return out, errors.New(res.Status)
		},
	}
	if keys {
		tool.KeyKept, tool.Ref = external.Forever, func(out sent) string { return out.ID }
	}
	return tool
}
