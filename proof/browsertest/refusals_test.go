package browsertest

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// field is a field of a form.
type field struct{ Name, Value string }

// fields are the fields of a page's form, as ada may send it.
func fields(t *testing.T, b *browser, page, action string) []field {
	t.Helper()
	v := b.tab(t, "ada")
	v.open(t, page)
	read := eval[[]field](t, v, `[...document.querySelectorAll("form[action=`+action+`] [type=hidden]")].map(f => ({Name: f.name, Value: f.value}))`)
	require.NotEmpty(t, read)
	return append(read, field{"reason", "why"}, field{"verdict", "never"})
}

// A page of another site cannot act through the browser of a visitor who may, nor show the console
// in a frame.
func testOtherSites(t *testing.T, b *browser) {
	c := newConsole(t)
	c.do(t, done, "a result")
	c.park(t, parked)
	var page string
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) }))
	defer site.Close()
	reset, resolve := fields(t, b, c.url+done.page(), "reset"), fields(t, b, c.url+parked.page(), "resolve")

	v := b.tab(t, "ada")
	at := func(url, host string) string { return strings.Replace(url, "127.0.0.1", host, 1) }
	for _, hosts := range []struct{ console, site, said string }{
		{"127.0.0.1", "127.0.0.1", "same-site"}, // another port
		{"127.0.0.1", "localhost", "cross-site"},
		{"console.test", "evil.test", ""}, // browsers send the site to secure origins only
	} {
		for action, sent := range map[string][]field{"reset": reset, "resolve": resolve} {
			page = fmt.Sprintf(`<!doctype html><form method="post" action="%s">`, at(c.url, hosts.console)+action)
			for _, f := range sent {
				page += fmt.Sprintf(`<input type="hidden" name="%s" value="%s">`, f.Name, html.EscapeString(f.Value))
			}
			page += `<button>Win a prize</button></form>`
			v.open(t, at(site.URL, hosts.site))
			require.EqualValues(t, http.StatusForbidden, v.click(t, "//button"), hosts)
			require.Equal(t, at(c.url, hosts.console)+action, v.address(t))
			require.NotContains(t, v.text(t), "access")
			require.Equal(t, hosts.said, c.site.Load())
		}
	}
	require.Equal(t, dedup.StateDone, c.state(t, done))
	require.Equal(t, external.StateParked, c.operation(t, parked).State)

	v.reported()
	page = `<!doctype html><iframe src="` + c.url + done.page() + `"></iframe>`
	v.open(t, site.URL)
	require.NotEmpty(t, matching(v.reported(), "issue: ContentSecurityPolicyIssue frame-ancestors"))

	// The refused requests are right apart from their site.
	v.open(t, c.url)
	require.EqualValues(t, http.StatusOK, v.post(t, "reset", reset))
	require.Equal(t, dedup.StateNotFound, c.state(t, done))
}

// A visitor without access sees nothing. A visitor who may not act, or only on other scopes, cannot
// act.
func testNoAccess(t *testing.T, b *browser) {
	c := newConsole(t)
	c.do(t, done, "a result")
	c.park(t, parked)
	reset, resolve := fields(t, b, c.url+done.page(), "reset"), fields(t, b, c.url+parked.page(), "resolve")

	for _, tt := range []struct {
		who    string
		status map[string]int64
	}{
		{"nobody", map[string]int64{c.url: 403, c.url + done.page(): 403, c.url + parked.page(): 403}},
		{"reader", map[string]int64{c.url: 200, c.url + done.page(): 200, c.url + parked.page(): 200}},
		{"globex", map[string]int64{c.url: 200, c.url + done.page(): 403, c.url + parked.page(): 403}},
	} {
		v := b.tab(t, tt.who)
		for page, status := range tt.status {
			require.Equal(t, status, v.open(t, page), "%s %s", tt.who, page)
			require.Zero(t, eval[int](t, v, `document.querySelectorAll("form[method=post]").length`))
			require.NotContains(t, v.text(t), "a result")
		}
		v.open(t, c.url)
		require.EqualValues(t, http.StatusForbidden, v.post(t, "reset", reset), tt.who)
		require.EqualValues(t, http.StatusForbidden, v.post(t, "resolve", resolve), tt.who)
	}
	require.Equal(t, dedup.StateDone, c.state(t, done))
	require.Equal(t, external.StateParked, c.operation(t, parked).State)
}

// post sends a form from the console's own page, and returns the status of the answer.
func (b *tab) post(t *testing.T, action string, sent []field) int64 {
	t.Helper()
	form := url.Values{}
	for _, f := range sent {
		form.Set(f.Name, f.Value)
	}
	status, err := chromedp.Run(b.ctx, chromedp.Evaluate[int64](
		fmt.Sprintf(`fetch(%q, {method: "POST", body: new URLSearchParams(%q)}).then(answer => answer.status)`, action, form.Encode()),
		chromedp.EvalAsValue, chromedp.EvalAwaitPromise))
	require.NoError(t, err)
	return status
}
