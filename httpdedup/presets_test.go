package httpdedup_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// dialect lists the answers that a standard or a provider requires.
type dialect struct {
	opts                    httpdedup.Options
	replayed                string
	echoes                  bool
	missing, reused, flight answerOf
	// afterwards is the answer to the same request a day later.
	afterwards int
}

// answerOf is a status, a content type, and members of the body as JSON.
type answerOf struct {
	status  int
	typ     string
	members string
}

var dialects = map[string]dialect{
	// draft-ietf-httpapi-idempotency-key-header-07, which expired in April 2026: section 2.7.
	"Draft": {
		opts: httpdedup.Options{}, replayed: "Idempotency-Replayed",
		missing:    answerOf{400, "application/problem+json", `{"type":"` + problemBase + `missing-key","status":400}`},
		reused:     answerOf{422, "application/problem+json", `{"type":"` + problemBase + `key-reused","status":422,"changed":["body.item"]}`},
		flight:     answerOf{409, "application/problem+json", `{"type":"` + problemBase + `in-flight","status":409}`},
		afterwards: http.StatusGone,
	},
	// docs.stripe.com/api/idempotent_requests, docs.stripe.com/error-codes.
	"Stripe": {
		opts: httpdedup.StripeOptions(), replayed: "Idempotent-Replayed", echoes: true,
		missing:    answerOf{400, "application/json", `{"error":{"type":"invalid_request_error"}}`},
		reused:     answerOf{400, "application/json", `{"error":{"type":"idempotency_error"}}`},
		flight:     answerOf{409, "application/json", `{"error":{"code":"idempotency_key_in_use"}}`},
		afterwards: http.StatusCreated,
	},
	// The Agentic Commerce Protocol's RFC of agentic checkout, section 6.
	"ACP": {
		opts: httpdedup.ACPOptions(), replayed: "Idempotent-Replayed", echoes: true,
		missing:    answerOf{400, "application/json", `{"type":"invalid_request","code":"idempotency_key_required"}`},
		reused:     answerOf{422, "application/json", `{"type":"invalid_request","code":"idempotency_conflict"}`},
		flight:     answerOf{409, "application/json", `{"type":"invalid_request","code":"idempotency_in_flight"}`},
		afterwards: http.StatusCreated,
	},
}

func TestDialects(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := d.opts
			opts.MaxWait = -1
			s := open(t, opts)
			entered, leave := make(chan struct{}), make(chan struct{})
			s.handle("POST /orders", "create_order", order)
			s.handle("POST /slow", "slow", func(w http.ResponseWriter, r *http.Request) {
				entered <- struct{}{}
				<-leave
			})

			first := s.post(t, "k", `{"item":"a"}`)
			require.Equal(t, http.StatusCreated, first.status, first.body)
			require.NotContains(t, first.header, d.replayed)
			again := s.post(t, "k", ` {"item": "a"}`)
			require.Equal(t, http.StatusCreated, again.status)
			require.Equal(t, first.body, again.body)
			require.Equal(t, "true", again.header.Get(d.replayed))

			missing := s.post(t, "", `{"item":"a"}`)
			d.missing.require(t, missing)
			reused := s.post(t, "k", `{"item":"b"}`)
			d.reused.require(t, reused)
			require.Equal(t, 1, s.count(t, "orders"))

			done := make(chan reply, 1)
			slow := s.request(t, http.MethodPost, "/slow", "s", "")
			go func() {
				r, _ := s.send(slow)
				done <- r
			}()
			wait(t, entered)
			flight := s.do(t, http.MethodPost, "/slow", "s", "")
			d.flight.require(t, flight)
			require.Equal(t, "1", flight.header.Get("Retry-After"))
			close(leave)
			require.Equal(t, http.StatusOK, wait(t, done).status)

			for _, r := range []reply{first, again, reused, flight} {
				require.Equal(t, d.echoes, r.header.Get("Idempotency-Key") != "", "%v", r.header)
			}
			s.pass(t, "25 hours")
			later := s.post(t, "k", `{"item":"a"}`)
			require.Equal(t, d.afterwards, later.status, later.body)
			require.Empty(t, later.header.Get(d.replayed))
		})
	}
}

func (a answerOf) require(t *testing.T, got reply) {
	t.Helper()
	require.Equal(t, a.status, got.status, got.body)
	require.Equal(t, a.typ, got.header.Get("Content-Type"))
	var want, body map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.members), &want))
	require.NoError(t, json.Unmarshal([]byte(got.body), &body))
	requireMembers(t, want, body)
}

// requireMembers requires that a body has members; it may have others.
func requireMembers(t *testing.T, want, body map[string]any) {
	t.Helper()
	for name, value := range want {
		if inner, ok := value.(map[string]any); ok {
			require.IsType(t, inner, body[name])
			requireMembers(t, inner, body[name].(map[string]any))
			continue
		}
		require.Equal(t, value, body[name], name)
	}
}

// An answer that is kept says until when, in whole seconds and never too long. Other answers do
// not.
func TestKeptUntil(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", order)
	s.handle("POST /declined", "declined", func(w http.ResponseWriter, r *http.Request) {
		httpdedup.Final(r.Context())
		w.WriteHeader(http.StatusPaymentRequired)
	})
	s.handle("POST /failed", "failed", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Dedup-Kept-Until", "forged")
		w.WriteHeader(http.StatusConflict)
	})
	for _, path := range []string{"/orders", "/declined"} {
		first, again := s.do(t, http.MethodPost, path, "k", `{"item":"a"}`), s.do(t, http.MethodPost, path, "k", `{"item":"a"}`)
		require.True(t, again.replayed())
		until, err := http.ParseTime(first.header.Get("Dedup-Kept-Until"))
		require.NoError(t, err, "%v", first.header)
		var expires time.Time
		require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT expires_at FROM tool_dedup WHERE tool = $1`,
			map[string]string{"/orders": "create_order", "/declined": "declined"}[path]).Scan(&expires))
		require.Equal(t, expires.UTC().Truncate(time.Second), until.UTC())
		require.Equal(t, first.header.Get("Dedup-Kept-Until"), again.header.Get("Dedup-Kept-Until"))
	}
	require.Empty(t, s.do(t, http.MethodPost, "/failed", "k", "").header.Get("Dedup-Kept-Until"))
	require.Empty(t, s.post(t, "k", `{"item":"b"}`).header.Get("Dedup-Kept-Until"))
}
