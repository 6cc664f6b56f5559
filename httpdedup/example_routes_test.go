package httpdedup_test

import (
	"fmt"
	"net/http"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// An endpoint of the Agentic Commerce Protocol.
func ExampleACPOptions() {
	pool, done := pgtest.Example()
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)
	opts := httpdedup.ACPOptions()
	opts.Scope = account
	middleware, err := httpdedup.New(d, opts)
	must(err)

	mux := http.NewServeMux()
	mux.Handle("POST /checkout_sessions", authenticatedByPassword(middleware.Wrap("create_checkout", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}))))
	for range 2 {
		res := answer(mux, "POST", "/checkout_sessions", "8e03978e", `{"items": []}`)
		fmt.Println(res.StatusCode, res.Header.Get("Idempotency-Key"), "replayed:", res.Header.Get("Idempotent-Replayed") == "true")
	}
	fmt.Println(answer(mux, "POST", "/checkout_sessions", "", `{}`).StatusCode, answer(mux, "POST", "/checkout_sessions", "8e03978e", `{}`).StatusCode)

	// Output:
	// 201 8e03978e replayed: false
	// 201 8e03978e replayed: true
	// 400 422
}

// An endpoint for clients that know Stripe's rules.
func ExampleStripeOptions() {
	pool, done := pgtest.Example()
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)
	opts := httpdedup.StripeOptions()
	opts.Scope = account
	middleware, err := httpdedup.New(d, opts)
	must(err)

	mux := http.NewServeMux()
	mux.Handle("POST /v1/charges", authenticatedByPassword(middleware.Wrap("charge", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
	for _, body := range []string{`{"amount": 500}`, `{"amount": 500}`, `{"amount": 700}`} {
		res := answer(mux, "POST", "/v1/charges", "8e03978e", body)
		fmt.Println(res.StatusCode, "replayed:", res.Header.Get("Idempotent-Replayed") == "true")
	}

	// Output:
	// 200 replayed: false
	// 200 replayed: true
	// 400 replayed: false
}
