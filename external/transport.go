package external

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
)

// Transport is an [http.RoundTripper] for the client that Perform uses. It marks as
// [NotDone] what certainly failed before anything was written: of a Base that is no [http.Transport],
// what failed before it had a connection, as its [httptrace] says. It keeps an [http.Transport] from sending a
// request a second time. It counts what an attempt has sent: where a client inside Perform or a Base
// sends a write more than once, a refusal and a [NotDone] say nothing of the sending before, and the
// outcome is not known.
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
	req.GetBody = nil // without it, net/http sends no body twice
	if native {
		hideKeys(req.Header)
	}
	res, err := base.RoundTrip(req)
	if err != nil {
		// HTTP/2 does not wait for what it is writing when ctx ends, and tells afterwards that it was written.
		if one.unsent(native, native && ctx.Err() == nil && req.Cancel == nil) { //nolint:staticcheck // its caller may set it all the same
			return nil, NotDone(err)
		}
		one.note(func() { one.sent = max(one.sent, 1) }) // there may be an answer
		return nil, err
	}
	one.note(func() { one.sent, one.status = max(one.sent, 1), res.StatusCode }) // also of a Base that has no httptrace
	return res, nil
}

// hideKeys spells headers by which net/http takes a write without a body for one that it may send
// again, when a connection is lost, in a way that only servers know.
func hideKeys(h http.Header) {
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
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
// not speak of: one before the last, one that was sent and has no answer, or one that was sent more
// than once.
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

// request is how far a request has come. Functions of httptrace note it, each on a goroutine of net/http.
type request struct {
	reads bool

	mu               sync.Mutex
	asked, connected bool // for a connection, and has one
	sent             int  // how often its header was written, at least
	status           int  // 0 where there is no answer
}

func (r *request) note(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// unsent reports whether nothing was written of a request that has failed. A Base that is not
// traced says nothing. tells is true when what is written on a connection was told by now.
func (r *request) unsent(traced, tells bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent > 0 || r.connected {
		return r.sent == 0 && tells
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
	case last: // Perform has its answer, and judges it
		return false
	}
	switch r.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusTooEarly:
		return true
	}
	return r.status < 400 || r.status >= 500
}
