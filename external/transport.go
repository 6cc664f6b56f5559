package external

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
)

// Transport is an [http.RoundTripper] for the client that Perform uses. It returns [NotDone] for a
// request that failed before anything was written. For a Base that is not an [http.Transport], this
// means before it had a connection, according to its [httptrace]. It also keeps an [http.Transport]
// from sending a request twice.
//
// Transport counts the requests of an attempt. If a client inside Perform, or Base, sends a write
// twice, the second answer does not prove what the first request did. The outcome is then unknown,
// even after a refusal or a [NotDone].
type Transport struct {
	// Base sends the requests. Default: http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	_, native := base.(*http.Transport)
	one := &request{reads: req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodOptions}
	attempt, _ := req.Context().Value(sentKey{}).(*sent)
	attempt.begin(one)
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn:      func(string) { one.note(func() { one.asked = true }) },
		GotConn:      func(httptrace.GotConnInfo) { one.note(func() { one.connected = true }) },
		WroteHeaders: func() { one.note(func() { one.sent++ }) },
	})
	req = req.Clone(ctx)
	req.GetBody = nil // so that net/http cannot send a body twice
	if native {
		hideKeys(req.Header)
	}
	res, err := base.RoundTrip(req)
	if err != nil {
		// HTTP/2 may call WroteHeaders after RoundTrip has returned, if ctx ended.
		if one.unsent(native, native && ctx.Err() == nil && req.Cancel == nil) { //nolint:staticcheck // deprecated, but callers may set it
			return nil, NotDone(err)
		}
		one.note(func() { one.sent = max(one.sent, 1) }) // the request may have arrived
		return nil, err
	}
	one.note(func() { one.sent, one.status = max(one.sent, 1), res.StatusCode }) // also for a Base without httptrace
	return res, nil
}

// hideKeys writes two headers in lower case. net/http repeats a write without a body after a lost
// connection if it finds one of them in canonical form.
func hideKeys(h http.Header) {
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

// sent has the requests that Transport saw in one attempt.
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

// doubtful reports whether an earlier request may have taken effect that the error of Perform is
// not about: a request before the last, one without a reply, or one that was sent more than once.
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

// request is the progress of one request. httptrace's functions set it from net/http's goroutines.
type request struct {
	reads bool

	mu               sync.Mutex
	asked, connected bool // asked for a connection, got one
	sent             int  // at least how often the header was written
	status           int  // of the response, 0 for none
}

func (r *request) note(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// unsent reports whether nothing of a failed request was written. traced is true if Base calls the
// trace's functions. complete is true if the trace cannot report a write later.
func (r *request) unsent(traced, complete bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent > 0 || r.connected {
		return r.sent == 0 && complete
	}
	return traced || r.asked
}

func (r *request) doubtful(last bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.reads || r.sent == 0:
		return false
	case r.status == 0 || r.sent > 1:
		return true
	case last: // Perform's error is about this response
		return false
	}
	switch r.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusTooEarly:
		return true
	}
	return r.status < 400 || r.status >= 500
}
