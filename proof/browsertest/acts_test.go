package browsertest

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// withAndWithout runs a test with the page's script and without it.
func withAndWithout(t *testing.T, b *browser, test func(*testing.T, *tab)) {
	for name, off := range map[string]bool{"Script": false, "NoScript": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := b.tab(t, "ada")
			must(t, v, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off})
			test(t, v)
		})
	}
}

// The pages work without script: a visitor finds them by their links and the search form.
func testNoScript(t *testing.T, b *browser) {
	c := newShop(t)
	v := b.tab(t, "ada")
	must(t, v, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.EqualValues(t, http.StatusOK, v.open(t, c.url))
	require.Contains(t, v.text(t), "create_ticket")
	for _, page := range []struct{ link, shows string }{
		{"7 days", "last 7 days"}, {"Attention", "connection reset"}, {"In flight", "report-2026-q3"}, {"Audit", "sent again by hand"}, {"Records", "Search"},
	} {
		require.EqualValues(t, http.StatusOK, v.click(t, `//a[starts-with(., "`+page.link+`")]`), page.link)
		require.Contains(t, v.text(t), page.shows)
	}
	v.fill(t, `[name=scope]`, done.Scope)
	v.fill(t, `[name=tool]`, done.Tool)
	v.click(t, `//button`)
	require.Contains(t, v.text(t), done.Key)
	v.fill(t, `[name=key]`, done.Key)
	v.click(t, `//button`)
	require.Contains(t, v.text(t), "Refund does not arrive")
	require.Empty(t, v.reported())
}

// A visitor who may act frees a record through its page and gives a reason.
func testReset(t *testing.T, b *browser) {
	withAndWithout(t, b, func(t *testing.T, v *tab) {
		c := newConsole(t)
		c.do(t, done, "a result")
		require.EqualValues(t, http.StatusOK, v.open(t, c.url+done.page()))
		const summary, button = `//summary`, `//button[text()="Free the record"]`
		v.press(t, summary)
		v.press(t, button) // without a reason
		require.Equal(t, dedup.StateDone, c.state(t, done))

		v.fill(t, `[name=reason]`, "the ticket was closed by mistake")
		require.EqualValues(t, http.StatusOK, v.click(t, button))
		require.Equal(t, c.url+done.page(), v.address(t))
		require.Contains(t, v.text(t), "not found")
		require.Contains(t, v.text(t), "reset by ada: the ticket was closed by mistake")
		require.Equal(t, dedup.StateNotFound, c.state(t, done))
		v.open(t, c.url+"audit")
		require.Contains(t, v.text(t), "the ticket was closed by mistake")
		require.Empty(t, v.reported())
	})
}

// A visitor who may act resolves a parked effect through its page.
func testResolve(t *testing.T, b *browser) {
	withAndWithout(t, b, func(t *testing.T, v *tab) {
		c := newConsole(t)
		c.park(t, parked)
		require.EqualValues(t, http.StatusOK, v.open(t, c.url+parked.page()))
		v.press(t, `//summary[text()="Give a verdict"]`)
		require.NotContains(t, v.text(t), "Result")
		v.press(t, `//input[@value="happened"]`)
		require.Contains(t, eval[string](t, v, `document.querySelector("[name=result]").value`), `"id": ""`)
		v.fill(t, `[name=result]`, `{"charge":"ch_1"}`)
		const button = `//button[text()="Store the verdict"]`
		v.press(t, button) // without a reason
		require.Equal(t, external.StateParked, c.operation(t, parked).State)

		// A wrong answer is refused, and the form keeps the input.
		v.fill(t, `[name=reason]`, "it is in the provider's list")
		require.EqualValues(t, http.StatusBadRequest, v.click(t, button))
		require.Contains(t, v.text(t), "not the tool's")
		require.Equal(t, "it is in the provider's list", eval[string](t, v, `document.querySelector("[name=reason]").value`))
		require.Equal(t, external.StateParked, c.operation(t, parked).State)
		v.fill(t, `[name=result]`, `{"id":"ch_1"}`)
		require.EqualValues(t, http.StatusOK, v.click(t, button))
		require.Equal(t, c.url+parked.page(), v.address(t))
		require.Contains(t, v.text(t), `{"id":"ch_1"}`)
		require.Contains(t, v.text(t), "happened by ada: it is in the provider's list")
		require.Equal(t, external.StateDone, c.operation(t, parked).State)
		require.Equal(t, dedup.StateDone, c.state(t, parked))
		v.open(t, c.url+"attention")
		require.Contains(t, v.text(t), "Nothing needs attention")
		reported := v.reported() // the browser reports the refusal and nothing else
		require.Len(t, reported, 1)
		require.Contains(t, reported[0], "400 (Bad Request)")
	})
}

// text is the text of the page.
func (b *tab) text(t *testing.T) string {
	t.Helper()
	return eval[string](t, b, "document.body.innerText")
}

// address is the address of the tab.
func (b *tab) address(t *testing.T) string {
	t.Helper()
	return eval[string](t, b, "location.href")
}

// fill replaces the value of a field.
func (b *tab) fill(t *testing.T, field, text string) {
	t.Helper()
	eval[any](t, b, "void (document.querySelector("+strconv.Quote(field)+").value = '')")
	require.NoError(t, chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS(field), text)))
}

// press clicks on the element of an XPath and stays on the page.
func (b *tab) press(t *testing.T, what string) {
	t.Helper()
	require.NoError(t, chromedp.Do(b.ctx, chromedp.Click(chromedp.Search(what))))
}

// click clicks on a link or button that leads to another page, and returns the status of the
// answer.
func (b *tab) click(t *testing.T, what string) int64 {
	t.Helper()
	response, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.Search(what)))
	require.NoError(t, err, what)
	if response.Status == http.StatusInternalServerError {
		return b.open(t, b.address(t))
	}
	return response.Status
}
