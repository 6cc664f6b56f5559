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
	if axe(t) == "" {
		t.Run("Axe", func(t *testing.T) {
			t.Skip("SKIPPED: axe-core is not below DEDUP_AXE or .cache/axe; run `make axe`")
		})
	}
	full := newShop(t)
	searched := []string{full.url + "records?scope=acme&tool=create_ticket", full.url + "records?scope=acme&tool=create_ticket&outcome=broken"}
	for name, tt := range map[string]struct {
		console *console
		who     string
		from    []string
	}{
		"All":    {full, "ada", append(searched, full.page(never), full.url+"call?scope=acme", full.url+"records?scope=acme&tool=no")},
		"Masked": {full, "reader", searched},
		"Scoped": {full, "globex", append(searched, full.page(freed))},
		"Empty":  {newConsole(t), "ada", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pages, forms := crawl(t, b.tab(t, tt.who), tt.console, tt.from)
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

// crawl looks at the first page, at those from, and at all that their links lead to. It
// returns the paths of the pages, and those that their forms post to.
func crawl(t *testing.T, v *tab, c *console, from []string) (pages, forms map[string]bool) {
	t.Helper()
	pages, forms = map[string]bool{}, map[string]bool{}
	seen := map[string]bool{}
	for queue := append([]string{c.url}, from...); len(queue) > 0; queue = queue[1:] {
		address := queue[0]
		if seen[address] {
			continue
		}
		seen[address] = true
		path, ok := strings.CutPrefix(address, c.url)
		require.True(t, ok, "%s is outside of the console", address)
		status := v.open(t, address)
		queue = append(queue, eval[[]string](t, v, `[...document.querySelectorAll("a[href]")].map(a => a.href)`)...)
		for _, action := range eval[[]string](t, v, `[...document.querySelectorAll("form[method=post]")].map(f => f.action)`) {
			forms[strings.TrimPrefix(action, c.url)] = true
		}
		for _, fault := range v.faults(t) {
			if status >= 400 && strings.HasPrefix(fault, "log: network: Failed to load resource") {
				continue // it is meant
			}
			t.Errorf("%s: %s", path, fault)
		}
		path, _, _ = strings.Cut(path, "?")
		pages[path] = true
	}
	t.Logf("%d pages", len(seen))
	return pages, forms
}
