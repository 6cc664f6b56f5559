package httpdedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// A client that lost its answer repeats the request with the same key. The authentication is around
// the middleware, so that no other client gets the answer.
func ExampleMiddleware() {
	pool, done := pgtest.Example(`CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY, item text)`)
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)

	middleware, err := httpdedup.New(d, httpdedup.Options{Scope: account})
	must(err)
	mux := http.NewServeMux()
	createOrder := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Item string }
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			http.Error(w, "send an item", http.StatusBadRequest) // rolls back, and is not stored
			return
		}
		tx, _ := httpdedup.Tx(r.Context())
		var id int
		if err := tx.QueryRow(r.Context(), `INSERT INTO orders (item) VALUES ($1) RETURNING id`, order.Item).Scan(&id); err != nil {
			http.Error(w, "no order", http.StatusInternalServerError) // the same
			return
		}
		w.Header().Set("Location", fmt.Sprintf("/orders/%d", id))
		w.WriteHeader(http.StatusCreated) // sent after the commit
	})
	mux.Handle("POST /orders", authenticatedByPassword(middleware.Wrap("create_order", createOrder)))
	mux.Handle("GET /operations/{tool}/{key}", authenticatedByPassword(middleware.Operations()))

	for range 2 {
		fmt.Println(send(mux, "POST", "/orders", `"8e03978e"`, `{"item": "lamp"}`))
	}
	fmt.Println(send(mux, "POST", "/orders", `"8e03978e"`, `{"item": "chair"}`))
	fmt.Println(send(mux, "POST", "/orders", ``, `{"item": "lamp"}`))

	// Output:
	// 201 /orders/1 replayed:
	// 201 /orders/1 replayed: true
	// 422 The Idempotency-Key was used for another request: body.item
	// 400 An Idempotency-Key is required:
}

// A 4xx that a retry must not change is marked as final.
func ExampleFinal() {
	pool, done := pgtest.Example(`CREATE TABLE charges (cents int)`)
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)
	middleware, err := httpdedup.New(d, httpdedup.Options{Scope: account})
	must(err)

	mux := http.NewServeMux()
	mux.Handle("POST /charges", authenticatedByPassword(middleware.Wrap("charge", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpdedup.Final(r.Context())
		w.WriteHeader(http.StatusPaymentRequired)
	}))))
	for range 2 {
		fmt.Println(send(mux, "POST", "/charges", `"k1"`, ""))
	}

	// Output:
	// 402  replayed:
	// 402  replayed: true
}

// A client asks for the state of a request without repeating it.
func ExampleMiddleware_Operations() {
	pool, done := pgtest.Example()
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)
	middleware, err := httpdedup.New(d, httpdedup.Options{Scope: account})
	must(err)

	mux := http.NewServeMux()
	mux.Handle("GET /operations/{tool}/{key}", authenticatedByPassword(middleware.Operations()))
	mux.Handle("POST /exports", authenticatedByPassword(middleware.Wrap("export", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"rows": 3}`)
	}))))
	look := func() {
		var operation struct {
			State    string
			Response struct {
				Status int
				Body   map[string]int
			}
		}
		must(json.NewDecoder(answer(mux, "GET", "/operations/export/k1", "", "").Body).Decode(&operation))
		fmt.Println(operation.State, operation.Response.Status, operation.Response.Body["rows"])
	}
	look()
	send(mux, "POST", "/exports", `"k1"`, "")
	look()

	// Output:
	// not_found 0 0
	// done 200 3
}

type accountKey struct{}

// authenticatedByPassword is the examples' authentication. It puts the account into the request's
// context.
func authenticatedByPassword(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, ok := r.BasicAuth()
		if !ok || password != "secret" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, name)))
	})
}

// account is the examples' scope: the authenticated account.
func account(r *http.Request) (string, error) {
	name, ok := r.Context().Value(accountKey{}).(string)
	if !ok {
		return "", &httpdedup.ScopeError{Status: http.StatusUnauthorized, Challenge: "Basic", Err: errors.New("the request has not been authenticated")}
	}
	return name, nil
}

// answer sends a request of acme's.
func answer(h http.Handler, method, path, key, body string) *http.Response {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.SetBasicAuth("acme", "secret")
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// send returns the answer to a request as one line.
func send(h http.Handler, method, path, key, body string) string {
	res := answer(h, method, path, key, body)
	text, err := io.ReadAll(res.Body)
	must(err)
	if res.Header.Get("Content-Type") != "application/problem+json" {
		return strings.TrimRight(fmt.Sprintf("%d %s replayed: %s", res.StatusCode, res.Header.Get("Location"), res.Header.Get("Idempotency-Replayed")), " ")
	}
	var problem struct {
		Title   string
		Changed []string
	}
	must(json.Unmarshal(text, &problem))
	return strings.TrimRight(fmt.Sprintf("%d %s: %s", res.StatusCode, problem.Title, strings.Join(problem.Changed, ", ")), " ")
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
