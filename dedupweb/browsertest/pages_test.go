package browsertest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testPages looks at every page that a link leads to, and some that only a form leads to.
func testPages(t *testing.T, b *browser) {
	t.Run("Axe", func(t *testing.T) {
		if b.axe == "" {
			t.Skipf("SKIPPED: no page was looked at with axe-core: %s", b.noAxe)
		}
	})
	shop, archive := newShop(t), newArchive(t)
	search := "records?scope=acme&tool=create_ticket"
	for name, tt := range map[string]struct {
		console *console
		who     string
		pages   []string
		follow  bool // the links of the pages
	}{
		"All":    {shop, "ada", []string{"", search, search + "&outcome=broken", never.page(), "call?scope=acme"}, true},
		"Scoped": {shop, "globex", []string{"", search, freed.page()}, true},
		"Empty":  {newConsole(t), "ada", []string{""}, true},
		"Masked": {shop, "reader", []string{"parked", done.page(), refused.page()}, false},
		"Long":   {archive, "blind", []string{"attention", "parked", "records?scope=acme&tool=refund", "audit"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pages, forms := crawl(t, b.tab(t, tt.who), tt.console, tt.pages, tt.follow)
			if name == "All" {
				text, err := os.ReadFile("../dedupweb.go")
				require.NoError(t, err)
				for _, route := range regexp.MustCompile(`"(GET|POST) /(\w*)(?:\{\$\})?"`).FindAllStringSubmatch(string(text), -1) {
					switch {
					case route[1] == "POST":
						require.True(t, forms[route[2]], "no page has a form for %s", route[2])
					case route[2] != "live":
						require.True(t, pages[route[2]], "no link leads to the page %s", route[2])
					}
				}
			}
		})
	}
}

// crawl looks at some pages and, where it is to follow, at all that their links lead to. It
// returns the paths of the pages, and those that their forms post to.
func crawl(t *testing.T, v *tab, c *console, queue []string, follow bool) (pages, forms map[string]bool) {
	t.Helper()
	pages, forms = map[string]bool{}, map[string]bool{}
	seen := map[string]bool{}
	for ; len(queue) > 0; queue = queue[1:] {
		page := queue[0]
		if seen[page] {
			continue
		}
		seen[page] = true
		status := v.open(t, c.url+page)
		for _, link := range eval[[]string](t, v, `[...document.querySelectorAll("a[href]")].map(a => a.href)`) {
			to, ok := strings.CutPrefix(link, c.url)
			require.True(t, ok, "%s is outside of the console", link)
			if follow {
				queue = append(queue, to)
			}
		}
		for _, action := range eval[[]string](t, v, `[...document.querySelectorAll("form[method=post]")].map(f => f.action)`) {
			forms[strings.TrimPrefix(action, c.url)] = true
		}
		for _, fault := range v.faults(t) {
			if status >= 400 && strings.HasPrefix(fault, "log: network: Failed to load resource") {
				continue // it is meant
			}
			t.Errorf("%s: %s", page, fault)
		}
		path, _, _ := strings.Cut(page, "?")
		pages[path] = true
	}
	t.Logf("%d pages", len(seen))
	return pages, forms
}
