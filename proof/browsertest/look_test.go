package browsertest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/npm"
)

// themes and widths are the looks of a page.
var (
	themes = []string{"light", "dark"}
	widths = []int64{1200, 390}
)

// faults are the faults of the tab's page, in each theme and width. axe-core, which is slow, looks at
// each theme once: in light at the first width, in dark at the second.
func (b *tab) faults(t *testing.T) []string {
	t.Helper()
	eval[any](t, b, `document.querySelectorAll("details").forEach(d => { d.open = true })`)
	var found []string
	for i, theme := range themes {
		for k, width := range widths {
			b.look(t, theme, width)
			faults := eval[[]string](t, b, `(() => {
				const wide = document.documentElement.scrollWidth - innerWidth;
				return wide > 0 ? ["wide: by " + wide + " pixels"] : [];
			})()`)
			if b.axe != "" && i == k {
				faults = append(faults, b.violations(t)...)
			}
			for _, fault := range faults {
				found = append(found, fmt.Sprintf("%s %d %s", theme, width, fault))
			}
		}
	}
	return append(found, b.reported()...)
}

// violations are the findings of axe-core. It runs beside the page's script, in a world that the
// page's policy does not restrict.
func (b *tab) violations(t *testing.T) []string {
	t.Helper()
	tree := must(t, b, page.GetFrameTree, cdp.Empty{})
	world := must(t, b, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: tree.FrameTree.Frame.ID, WorldName: "axe"})
	inWorld := func(p *runtime.EvaluateParams) { p.ContextID = world.ExecutionContextID }
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](`typeof axe === "undefined" && (() => { `+b.axe+` })();
		axe.run(document, {resultTypes: ["violations"]}).then(result => result.violations.flatMap(v =>
			v.nodes.map(node => "axe: " + v.id + ": " + node.target.join(" ") + ": " + node.failureSummary)))`,
		chromedp.EvalAsValue, chromedp.EvalAwaitPromise, inWorld))
	require.NoError(t, err)
	return found
}

// installAxe returns the text of axe-core, or the reason why it is missing.
func installAxe(t *testing.T) (text, missing string) {
	t.Helper()
	folder, err := npm.Find("axe")
	if errors.Is(err, npm.ErrMissing) {
		return "", err.Error()
	}
	require.NoError(t, err)
	read, err := os.ReadFile(filepath.Join(folder, "node_modules", "axe-core", "axe.min.js"))
	require.NoError(t, err)
	return string(read), ""
}

// The search of the pages' tests finds a planted fault.
func testFaults(t *testing.T, b *browser) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; style-src 'unsafe-inline'; script-src 'nonce-given'")
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `<!doctype html><html lang="en"><title>Faults</title>
			<style>@media (prefers-color-scheme: dark) { p { color: #777; background: #555 } }</style>
			<main><h1>Faults</h1><p>Text</p><details><summary>More</summary><input></details><div style="width: 800px">wide</div><img src="none.png" alt="">
			<script>alert(1)</script><script nonce="given">console.error("said"); nothing()</script></main>`)
	}))
	defer server.Close()
	v := b.tab(t, "ada")
	require.EqualValues(t, http.StatusOK, v.open(t, server.URL))
	faults := v.faults(t)
	for _, fault := range []string{
		`^light 390 wide: by \d+ pixels$`, `^dark 390 wide: `, `^issue: ContentSecurityPolicyIssue script-src-elem$`,
		`^log: security: `, `^console: error "said"$`, `^exception: Uncaught`, `^log: network: .*404 .*none.png$`,
	} {
		require.NotEmpty(t, matching(faults, fault), "%s in %q", fault, faults)
	}
	require.Empty(t, matching(faults, `1200 wide`))
	if b.axe != "" {
		require.Len(t, matching(faults, `axe: label: input: `), 2)
		require.Len(t, matching(faults, `^dark \d+ axe: color-contrast: p: `), 1)
		require.Empty(t, matching(faults, `^light \d+ axe: color-contrast`))
	}
	require.Empty(t, v.reported())
}

func matching(texts []string, pattern string) []string {
	var found []string
	for _, text := range texts {
		if regexp.MustCompile(pattern).MatchString(text) {
			found = append(found, text)
		}
	}
	return found
}
