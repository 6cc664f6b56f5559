package runner_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// The key travels from Do through the context into the header. The code between them does not
// handle it.
func ExampleTransport() {
	ctx := context.Background()
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.Header.Get("Idempotency-Key"))
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "booked")
	}))
	defer server.Close()

	client := &http.Client{Transport: &runner.Transport{}}
	defer client.CloseIdleConnections()
	post := func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		if err := runner.ResponseError(resp); err != nil {
			return "", err
		}
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}

	call := runner.Call{Tool: "book", Class: tool.Write, Key: "order 17", Pause: time.Millisecond}
	answer, err := runner.Do(ctx, call, post)
	fmt.Println(answer, err)

	// Output:
	// POST "order 17"
	// POST "order 17"
	// booked <nil>
}

// A status becomes an error that tells whether and when to try again.
func ExampleResponseError() {
	response := &http.Response{StatusCode: 409, Header: http.Header{"Retry-After": {"2"}}}
	err := runner.ResponseError(response)
	fmt.Println(err)
	fmt.Println("again:", runner.IsRetryable(err))

	// Output:
	// runner: status 409 (Conflict), retry after 2s
	// again: true
}
