package browsertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func testScreenshots(t *testing.T, b *browser) {
	folder := os.Getenv("DEDUP_SCREENSHOTS")
	if folder == "" {
		t.Skip("DEDUP_SCREENSHOTS names no folder to write to")
	}
	c := newShop(t)
	v := b.tab(t, "ada")
	for _, p := range []struct {
		name, page, theme string
		width             int64
	}{
		{"overview-light", "", "light", 1200}, {"overview-dark", "", "dark", 1200}, {"overview-390", "", "light", 390},
		{"attention", "attention", "light", 1200}, {"parked", "parked", "light", 1200}, {"inflight", "inflight", "light", 1200},
		{"records", "records?scope=acme&tool=create_ticket", "light", 1200}, {"audit", "audit", "light", 1200},
		{"records-390", "records?scope=acme&tool=create_ticket", "dark", 390},
		{"attention-390", "attention", "dark", 390}, {"audit-390", "audit", "dark", 390},
		{"call", c.page(done)[len(c.url):], "dark", 1200}, {"call-390", c.page(parked)[len(c.url):], "light", 390},
		{"failure", "call?scope=acme", "light", 1200},
	} {
		require.NotZero(t, v.open(t, c.url+p.page))
		v.look(t, p.theme, p.width)
		eval[any](t, v, `document.querySelectorAll("details").forEach(d => d.open = true)`)
		png, err := chromedp.Run(v.ctx, chromedp.FullScreenshot(100))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, p.name+".png"), png, 0o600))
		t.Log(p.name, v.reported())
	}
}
