package deduptest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
	"github.com/tooldedup/dedup/external"
)

// The tool is production's, with its client. Its server is a fake of the provider's API, which asks
// a deduptest.Provider. In your test tb is its *testing.T.
func ExampleVerifyEffect() {
	provider := &deduptest.Provider{KeyKept: 24 * time.Hour, Refuses: true}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := provider.Act(r.Header.Get("Idempotency-Key"), r.FormValue("ref"))
		switch {
		case errors.Is(err, deduptest.ErrNoAnswer):
			panic(http.ErrAbortHandler)
		case errors.Is(err, deduptest.ErrRefused):
			http.Error(w, "no such address", http.StatusUnprocessableEntity)
		case errors.Is(err, deduptest.ErrConflict):
			http.Error(w, "in progress", http.StatusConflict)
		case errors.Is(err, deduptest.ErrBusy):
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		case errors.Is(err, deduptest.ErrFault):
			http.Error(w, "try later", http.StatusInternalServerError)
		default:
			fmt.Fprint(w, id)
		}
	}))
	defer api.Close()

	tb, databaseURL, done := exampleDatabase(``)
	defer done()
	report := deduptest.VerifyEffect(tb, databaseURL, deduptest.Effect[string, string]{
		Tool:     mailTool(api.URL),
		Provider: provider,
		In:       func(n int) string { return fmt.Sprintf("guest-%d@example.com", n) },
	})
	fmt.Println(len(report.Scenarios), "scenarios, failed:", report.Failed())

	// Output:
	// 7 scenarios, failed: []
}

// mailTool sends a mail over an API that keeps keys for a day. The answer is the mail's id.
func mailTool(api string) external.Tool[string, string] {
	client := &http.Client{Transport: &external.Transport{}}
	return external.Tool[string, string]{
		Name: "send_mail", KeyKept: 24 * time.Hour, Ref: func(id string) string { return id },
		Perform: func(ctx context.Context, a external.Attempt, to string) (string, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, api+"/mails", strings.NewReader("to="+to+"&ref="+a.Key))
			if err != nil {
				return "", external.NotDone(err)
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Idempotency-Key", a.Key)
			res, err := client.Do(req)
			if err != nil {
				return "", err
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			switch {
			case err != nil:
				return "", err
			case res.StatusCode == http.StatusUnprocessableEntity:
				return "", dedup.Final(errors.New(string(text)))
			case res.StatusCode != http.StatusOK:
				return "", errors.New(res.Status)
			}
			return string(text), nil
		},
	}
}
