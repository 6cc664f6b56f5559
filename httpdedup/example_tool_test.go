package httpdedup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool"
)

// The provider cannot look up a mail. If the answer to one is lost, the client is told each time
// that the outcome is unknown; nothing is sent again.
func ExampleMiddleware_Tool() {
	pool, done := pgtest.Example()
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)
	outside, err := external.New(d, nil) // run outside.Recover(ctx) in every process
	must(err)
	defer func() { must(outside.Close(context.Background())) }()
	type mail struct {
		To string `json:"to"`
	}
	tools := tool.NewRegistry(d, &tool.Options{External: outside})
	must(tools.Add(tool.ExternalTool[mail, string]{Tool: external.Tool[mail, string]{
		Name: "send_mail",
		Perform: func(_ context.Context, a external.Attempt, m mail) (string, error) {
			if m.To == "bob@example.com" {
				return "", io.ErrUnexpectedEOF
			}
			return "queued", nil
		},
	}}))

	middleware, err := httpdedup.New(d, httpdedup.Options{Scope: account, Tools: tools})
	must(err)
	mux := http.NewServeMux()
	mux.Handle("POST /mails", authenticatedByPassword(middleware.Tool("send_mail")))
	mux.Handle("GET /operations/{tool}/{key}", authenticatedByPassword(middleware.Operations()))

	for _, to := range []string{"alice@example.com", "bob@example.com"} {
		key, body := to[:3], fmt.Sprintf(`{"to": %q}`, to)
		for range 2 {
			res := answer(mux, "POST", "/mails", key, body)
			if res.StatusCode == http.StatusOK {
				fmt.Println("200 replayed:", res.Header.Get("Idempotency-Replayed") == "true")
				continue
			}
			var open struct{ State string }
			must(json.NewDecoder(res.Body).Decode(&open))
			fmt.Println(res.StatusCode, open.State, res.Header.Get("Location"), "again after", res.Header.Get("Retry-After"))
		}
	}

	// Output:
	// 200 replayed: false
	// 200 replayed: true
	// 202 parked /operations/send_mail/bob again after 300
	// 202 parked /operations/send_mail/bob again after 300
}
