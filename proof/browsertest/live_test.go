package browsertest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// ticking lets the test decide when the tab's pages tick, and counts their requests.
const ticking = `
	setInterval = (tick) => { window.tick = tick };
	const fetches = fetch;
	window.fetched = 0;
	fetch = (...args) => { fetched++; return fetches(...args) }`

// A page is renewed, with its tabs, while it is visible and has no focus.
func testLive(t *testing.T, b *browser) {
	c := newConsole(t)
	v := b.tab(t, "ada")
	must(t, v, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: ticking})
	tick := func() (fetched int) {
		t.Helper()
		fetched, err := chromedp.Run(v.ctx, chromedp.Evaluate[int](`tick().then(() => fetched)`, chromedp.EvalAsValue, chromedp.EvalAwaitPromise))
		require.NoError(t, err)
		return fetched
	}
	require.EqualValues(t, http.StatusOK, v.open(t, c.url+"attention"))
	require.Contains(t, v.text(t), "Nothing needs attention")
	c.breaks(t, broken)
	require.Equal(t, 1, tick())
	require.Contains(t, v.text(t), broken.Key)
	require.Contains(t, v.text(t), "Attention 1")

	// The focus is in the list, and then in the tabs.
	focus := func(on string) { eval[any](t, v, fmt.Sprintf(`document.querySelector(%q).focus()`, on)) }
	focus("#live a")
	_, err := c.d.Reset(t.Context(), broken.Scope, broken.Tool, broken.Key, dedup.ChangeOptions{Actor: "ada", Reason: "repaired"})
	require.NoError(t, err)
	tick()
	require.Contains(t, v.text(t), broken.Key)
	require.NotContains(t, v.text(t), "Attention 1")
	focus("#tabs a")
	c.park(t, parked)
	tick()
	require.Contains(t, v.text(t), parked.Key)
	require.NotContains(t, v.text(t), broken.Key)
	require.NotContains(t, v.text(t), "Attention 1")

	before := tick()
	hide := func(hidden bool) {
		eval[any](t, v, fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %t, configurable: true})`, hidden))
	}
	hide(true)
	require.Equal(t, before, tick())
	hide(false)
	require.Equal(t, before+1, tick())
	require.Empty(t, v.reported())

	// The page says that its data is old.
	require.NotContains(t, eval[string](t, v, `getComputedStyle(document.getElementById("live"), "::before").content`), "Not renewed")
	eval[any](t, v, `void (fetch = () => Promise.reject(new Error("down")))`)
	tick()
	require.Contains(t, eval[string](t, v, `getComputedStyle(document.getElementById("live"), "::before").content`), "Not renewed")
	require.Empty(t, v.reported())
}
