package browsertest

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Fifty viewers of the overview, some of them browsers, cost the database one query in a tick.
// A page that its reader is in is left alone.
func testLive(t *testing.T, b *browser) {
	const (
		viewers, tabs, renewals = 50, 4, 2
		tick                    = 5 * time.Second
		// watch ends when the page has been renewed so often.
		watch = `new Promise(done => {
			window.renewed = 0;
			new MutationObserver(() => { if (++renewed == 2) done(document.body.innerText); }).observe(document.getElementById("live"), {childList: true});
		})`
	)
	c := newConsole(t)
	c.count(t, 41)
	var looking []*tab
	for range tabs {
		v := b.tab(t, "ada")
		require.EqualValues(t, http.StatusOK, v.open(t, c.url))
		require.Contains(t, v.text(t), "41")
		looking = append(looking, v)
	}
	reading := b.tab(t, "ada")
	reading.open(t, c.url)
	eval[any](t, reading, `document.querySelector("#live a").focus()`)
	eval[any](t, reading, `void `+watch)
	c.count(t, 1)

	began, before := time.Now(), c.counted.Load() // no page is opened from here on
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	ended := make(chan int, viewers)
	for range viewers - tabs - 1 {
		all.Go(func() { ended <- c.stream(ctx, renewals) })
	}
	for _, v := range looking {
		all.Go(func() {
			text, err := chromedp.Run(v.ctx, chromedp.Evaluate[string](watch, chromedp.EvalAsValue, chromedp.EvalAwaitPromise))
			if err == nil && text != "" {
				ended <- renewals
			}
		})
	}
	all.Wait()
	queries, took := c.counted.Load()-before, time.Since(began)
	require.Len(t, ended, viewers-1)
	for range viewers - 1 {
		require.Equal(t, renewals, <-ended)
	}
	require.GreaterOrEqual(t, queries, int64(renewals-1))
	require.LessOrEqual(t, queries, int64(took/tick)+1)
	for _, v := range looking {
		require.Contains(t, v.text(t), "42")
		require.Empty(t, v.reported())
	}
	require.Contains(t, reading.text(t), "41")
	require.Zero(t, eval[int](t, reading, "renewed"))
	t.Logf("%d viewers, %d queries in %s", viewers, queries, took)
}

// A page that is hidden has no stream, and has one again when it is shown.
func testHidden(t *testing.T, b *browser) {
	c := newConsole(t)
	v := b.tab(t, "ada")
	streams := func(e network.EventRequestWillBeSent) bool { return e.Type == network.ResourceTypeEventSource }
	turn := func(hidden bool) chromedp.Action[any] {
		return chromedp.Evaluate[any](fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %t, configurable: true});
			void document.dispatchEvent(new Event("visibilitychange"))`, hidden), chromedp.EvalAsValue)
	}
	stream, err := chromedp.Run(v.ctx, chromedp.WaitEvent(network.RequestWillBeSent, streams, chromedp.Navigate(c.url+"?last=7d")))
	require.NoError(t, err)
	require.Equal(t, c.url+"live?last=7d", stream.Request.URL)
	_, err = chromedp.Run(v.ctx, chromedp.WaitEvent(network.LoadingFailed, func(e network.EventLoadingFailed) bool { return e.RequestID == stream.RequestID }, turn(true)))
	require.NoError(t, err)
	_, err = chromedp.Run(v.ctx, chromedp.WaitEvent(network.RequestWillBeSent, streams, turn(false)))
	require.NoError(t, err)
	require.Empty(t, v.reported())
}

// count adds calls to what Sweepers have counted.
func (c *console) count(t *testing.T, calls int) {
	t.Helper()
	_, err := c.pool.Exec(t.Context(), `INSERT INTO tool_dedup_stat (at, instance, tool, outcome, calls, seconds, waited)
		VALUES (clock_timestamp() - interval '1 minute', 'shop-1', 'create_ticket', 'executed', $1, 1, 0)`, calls)
	require.NoError(t, err)
}

// stream reads so many events of the overview's stream, and returns how many came.
func (c *console) stream(ctx context.Context, events int) (came int) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"live", nil)
	if err != nil {
		return 0
	}
	r.Header.Set(asking, "ada")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	lines, data := bufio.NewScanner(answer.Body), false
	for came < events && lines.Scan() {
		switch text := lines.Text(); {
		case text == "" && data:
			came++
			data = false
		case len(text) > 5 && text[:5] == "data:":
			data = true
		}
	}
	return came
}
