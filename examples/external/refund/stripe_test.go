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
//   - once its endpoint begins, the first request's status and body are kept under the key and
//     replayed, also if they are an error;
//   - a request gets 409 if the key's first request still runs, and 400 if it has other parameters
//     than the first; neither is kept;
//   - a request that is refused before its endpoint begins is not kept;
//   - a key is forgotten when it is 24 hours old.
type fakeStripe struct {
	*httptest.Server

	mu      sync.Mutex
	age     time.Duration // the time since the server started
	keys    map[string]*kept
	refunds []string
	replays int

	// gate runs before the endpoint, and endpoint replaces it; nil means the usual behavior. lost
	// is the number, from 1, of the request whose answer is lost.
	gate, endpoint func() int
	lost           map[int]bool
	requests       int
}

// kept is the stored answer of a key.
type kept struct {
	params string
	since  time.Duration
	status int // 0 while the first request runs
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

// made returns the number of refunds and of replayed answers.
func (s *fakeStripe) made() (refunds, replays int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.refunds), s.replays
}

// pass advances the clock.
func (s *fakeStripe) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age += d
}
