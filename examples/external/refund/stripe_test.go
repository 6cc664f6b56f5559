package refund

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// fakeStripe makes refunds by the rules for idempotency keys that Stripe documents:
//
//   - the status and the body of the first request with a key are kept from the moment that its
//     endpoint begins, errors included, and replayed;
//   - a request with a key whose first request still runs is a 409, with another one's parameters a 400, and
//     neither is kept;
//   - a request that is turned away before its endpoint begins is not kept;
//   - a key is forgotten when it is 24 hours old.
type fakeStripe struct {
	*httptest.Server

	mu      sync.Mutex
	age     time.Duration // has passed since the server began
	keys    map[string]*kept
	refunds []string
	replays int

	// gate is asked before the endpoint begins, and endpoint runs in the place of it; zero means
	// as usual. lost takes away the answer to a request, counted from 1.
	gate, endpoint func() int
	lost           map[int]bool
	requests       int
}

// kept is what is known of a key.
type kept struct {
	params string
	since  time.Duration
	status int // 0: the first request still runs
	body   string
}

func newStripe(t *testing.T) *fakeStripe {
	t.Helper()
	usual := func() int { return 0 }
	s := &fakeStripe{keys: map[string]*kept{}, gate: usual, endpoint: usual, lost: map[int]bool{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *fakeStripe) serve(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	s.mu.Lock()
	s.requests++
	lost := s.lost[s.requests]
	s.mu.Unlock()
	status, body, replayed := s.answer(r.Header.Get("Idempotency-Key"), r.PostForm.Encode())
	if lost {
		panic(http.ErrAbortHandler)
	}
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func (s *fakeStripe) answer(key, params string) (status int, body string, replayed bool) {
	if status := s.gate(); status != 0 {
		return status, errorBody("api_error", "rate_limit"), false
	}
	s.mu.Lock()
	k := s.keys[key]
	if k != nil && s.age-k.since >= 24*time.Hour {
		k = nil
	}
	switch {
	case k == nil:
		k = &kept{params: params, since: s.age}
		s.keys[key] = k
	case k.params != params:
		s.mu.Unlock()
		return http.StatusBadRequest, errorBody("idempotency_error", ""), false
	case k.status == 0:
		s.mu.Unlock()
		return http.StatusConflict, errorBody("invalid_request_error", "idempotency_key_in_use"), false
	default:
		defer s.mu.Unlock()
		s.replays++
		return k.status, k.body, true
	}
	s.mu.Unlock()

	status = s.endpoint()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch status {
	case 0:
		status = http.StatusOK
		s.refunds = append(s.refunds, fmt.Sprint("re_", len(s.refunds)+1))
		body = fmt.Sprintf(`{"id": %q, "object": "refund", "status": "succeeded"}`, s.refunds[len(s.refunds)-1])
	case http.StatusBadRequest:
		body = errorBody("invalid_request_error", "charge_already_refunded")
	default:
		body = errorBody("api_error", "")
	}
	k.status, k.body = status, body
	return status, body, false
}

func errorBody(kind, code string) string {
	return fmt.Sprintf(`{"error": {"type": %q, "code": %q, "message": "see the documentation"}}`, kind, code)
}

// made returns how many refunds there are, and how many answers were replayed.
func (s *fakeStripe) made() (refunds, replays int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.refunds), s.replays
}

// pass lets time pass.
func (s *fakeStripe) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age += d
}
