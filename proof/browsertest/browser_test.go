package browsertest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience bounds a test's work with a tab.
const patience = 20 * time.Minute

// browser is a running browser.
type browser struct {
	ctx context.Context
	// axe is the text of axe-core. noAxe is the reason if there is none.
	axe, noAxe string
}

// start starts the browser that DEDUP_CHROMIUM names, or one on PATH. The browser ends with the
// test.
func start(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program(t)),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("hide-scrollbars", true),
	)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, stopAllocating := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stopAllocating)
	ctx, stop := chromedp.NewContext(ctx)
	t.Cleanup(stop)
	require.NoError(t, chromedp.Do(ctx))
	b := &browser{ctx: ctx}
	b.axe, b.noAxe = installAxe(t)
	return b
}

func program(t *testing.T) string {
	t.Helper()
	if named := os.Getenv("DEDUP_CHROMIUM"); named != "" {
		return named
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	t.Skip("SKIPPED, NOTHING WAS TESTED: no Chromium is found in DEDUP_CHROMIUM or PATH; run `apt-get install chromium`")
	return ""
}
