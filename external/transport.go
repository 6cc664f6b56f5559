package external

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// Transport is an [http.RoundTripper] for the client that Perform uses. It marks as
// [NotDone] what failed before anything was written, it keeps net/http from sending a
// request a second time, and it remembers what an attempt has sent: a client that retries
// by itself inside Perform, and fails to connect the second time, is not taken for one that
// has sent nothing.
type Transport struct {
	// Base sends the requests. Default http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	one := &request{reads: req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodOptions}
	attempt, _ := req.Context().Value(sentKey{}).(*sent)
	attempt.begin(one)
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{WroteHeaders: func() { one.set(written, 0) }})
	req = req.Clone(ctx)
	// Without it, net/http sends no body twice. A write without a body it sends again only
	// where that has an Idempotency-Key, and then it does no harm.
	req.GetBody = nil
	res, err := base.RoundTrip(req)
	if err != nil {
		if !one.is(written) {
			return nil, NotDone(err)
		}
		return nil, err
	}
	one.set(answered, res.StatusCode)
	return res, nil
}

// sent is what Transport knows of the requests of one attempt.
type sent struct {
	mu       sync.Mutex
	requests []*request
}

type sentKey struct{}

func withSent(ctx context.Context) (context.Context, *sent) {
	s := &sent{}
	return context.WithValue(ctx, sentKey{}, s), s
}

func (s *sent) begin(r *request) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

// doubtful reports whether a request may have taken effect that an error of Perform does
// not speak of: one before the last, or one that was sent and has no answer.
func (s *sent) doubtful() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.requests {
		if r.doubtful(i == len(s.requests)-1) {
			return true
		}
	}
	return false
}

// request is how far a request has come.
type request struct {
	reads bool

	mu     sync.Mutex
	stage  stage
	status int
}

type stage int

const (
	written stage = 1 + iota // its header at least
	answered
)

func (r *request) set(s stage, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stage, r.status = max(r.stage, s), status
}

func (r *request) is(s stage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stage >= s
}

func (r *request) doubtful(last bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.reads || r.stage < written:
		return false
	case r.stage < answered:
		return true
	case last: // Perform has its answer, and judges it
		return false
	}
	switch r.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusTooEarly:
		return true
	}
	return r.status < 400 || r.status >= 500
}
