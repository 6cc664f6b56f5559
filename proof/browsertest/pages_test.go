package browsertest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// visit is a way through the console.
type visit struct {
	console *console
	who     string
	pages   []string
	follow  bool // the links of the pages
}

const search = "records?scope=acme&tool=create_ticket"

// testPages looks at every page behind a link, and at some pages that only a form opens.
func testPages(t *testing.T, b *browser) {
	noteAxe(t, b)
	pages, forms := crawl(t, b, visit{newShop(t), "ada", []string{"", search, search + "&outcome=broken", never.page(), "call?scope=acme", "records?key=report"}, true})
	text, err := os.ReadFile("../../dedupweb/dedupweb.go")
	require.NoError(t, err)
	for _, route := range regexp.MustCompile(`"(GET|POST) /(\w*)(?:\{\$\})?"`).FindAllStringSubmatch(string(text), -1) {
		switch route[1] {
		case "POST":
			require.True(t, forms[route[2]], "no page has a form for %s", route[2])
		default:
			require.True(t, pages[route[2]], "no link leads to the page %s", route[2])
		}
	}
}

// testOtherVisitors looks at the pages as visitors with fewer rights, and with more and less data.
func testOtherVisitors(t *testing.T, b *browser) {
	noteAxe(t, b)
	shop := newShop(t)
	for name, v := range map[string]visit{
		"Scoped": {shop, "globex", []string{"", search, freed.page()}, true},
		"Empty":  {newConsole(t), "ada", []string{""}, true},
		"Masked": {shop, "reader", []string{"attention", "inflight", "records", done.page(), refused.page()}, false},
		"Long":   {newArchive(t), "blind", []string{"attention", "records?scope=acme&tool=refund", "audit"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crawl(t, b, v)
		})
	}
}

func noteAxe(t *testing.T, b *browser) {
	t.Helper()
	t.Run("Axe", func(t *testing.T) {
		if b.axe == "" {
			t.Skipf("SKIPPED: no page was looked at with axe-core: %s", b.noAxe)
		}
	})
}

// crawl looks at the pages of a visit. It returns their paths and the targets of their forms.
func crawl(t *testing.T, b *browser, way visit) (pages, forms map[string]bool) {
	t.Helper()
	v, c := b.tab(t, way.who), way.console
	pages, forms = map[string]bool{}, map[string]bool{}
	seen := map[string]bool{}
	for queue := way.pages; len(queue) > 0; queue = queue[1:] {
		page := queue[0]
		if seen[page] {
			continue
		}
		seen[page] = true
		status := v.open(t, c.url+page)
		for _, link := range eval[[]string](t, v, `[...document.querySelectorAll("a[href]")].map(a => a.href.split("#")[0])`) {
			to, ok := strings.CutPrefix(link, c.url)
			require.True(t, ok, "%s is outside the console", link)
			if way.follow {
				queue = append(queue, to)
			}
		}
		for _, action := range eval[[]string](t, v, `[...document.querySelectorAll("form[method=post]")].map(f => f.action)`) {
			forms[strings.TrimPrefix(action, c.url)] = true
		}
		for _, fault := range v.faults(t) {
			if status >= 400 && strings.HasPrefix(fault, "log: network: Failed to load resource") {
				continue // intended
			}
			t.Errorf("%s: %s", page, fault)
		}
		path, _, _ := strings.Cut(page, "?")
		pages[path] = true
	}
	t.Logf("%d pages", len(seen))
	return pages, forms
}
