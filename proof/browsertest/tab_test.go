package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// tab is one visitor's tab with its own cookies and connections.
type tab struct {
	ctx context.Context
	axe string

	mu sync.Mutex
	// problems are the browser's reports since they were last taken.
	problems []string
}

// tab opens a visitor's tab and closes it with the test.
func (b *browser) tab(t *testing.T, who string) *tab {
	t.Helper()
	opened := &tab{axe: b.axe}
	ctx, stop := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(opened.report))
	t.Cleanup(stop)
	require.NoError(t, chromedp.Do(ctx)) // a time limit on the first use would limit the tab's life
	ctx, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	opened.ctx = ctx
	must(t, opened, audits.Enable, cdp.Empty{})
	must(t, opened, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{asking: who}})
	return opened
}

// report keeps the browser's reports about a page.
func (b *tab) report(event any) {
	var problem string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = "exception: " + e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		problem = "console: " + string(e.Type)
		for _, arg := range e.Args {
			problem += " " + string(arg.Value)
		}
	case *log.EventEntryAdded:
		problem = fmt.Sprintf("log: %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	case *audits.EventIssueAdded:
		problem = "issue: " + string(e.Issue.Code)
		if of := e.Issue.Details.ContentSecurityPolicyIssueDetails; of != nil {
			problem += " " + of.ViolatedDirective
		}
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, problem)
}

// reported takes the reports.
func (b *tab) reported() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.problems
	b.problems = nil
	return taken
}

// open goes to an address and returns the status of the answer. It tries again if a busy machine
// exceeds the console's time limit.
func (b *tab) open(t *testing.T, url string) int64 {
	t.Helper()
	for tries := 10; ; tries-- {
		response, err := chromedp.Run(b.ctx, chromedp.NavigateResponse(url))
		require.NoError(t, err, url)
		if response.Status != http.StatusInternalServerError || tries == 0 || !strings.Contains(b.text(t), "took too long") {
			return response.Status
		}
		b.reported()
	}
}

// look shows the page in a theme and a width.
func (b *tab) look(t *testing.T, theme string, width int64) {
	t.Helper()
	must(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
	require.NoError(t, chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 800)))
}

// must sends the tab a command.
func must[P, R any](t *testing.T, b *tab, command cdp.Command[P, R], params P) R {
	t.Helper()
	result, err := chromedp.Call(b.ctx, command, params)
	require.NoError(t, err)
	return result
}

// eval returns the value of an expression in the page.
func eval[T any](t *testing.T, b *tab, expression string) T {
	t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAsValue))
	require.NoError(t, err, expression)
	return value
}
