package browsertest

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/require"
)

// testScreenshots takes the pictures of the documents. `make screenshots` writes them to docs.
func testScreenshots(t *testing.T, b *browser) {
	folder := cmp.Or(os.Getenv("DEDUP_SCREENSHOTS"), t.TempDir())
	c := newShop(t)
	v := b.tab(t, "ada")
	for _, p := range []struct {
		name, page, theme string
		width             int64
		then              string
	}{
		{"overview-light", c.url, "light", 1200, ""},
		{"overview-dark", c.url, "dark", 1200, ""},
		{"attention", c.url + "attention", "light", 1200, ""},
		{"call", c.url + parked.page(), "light", 390, `document.querySelector("summary").click(), document.querySelector("[value=happened]").click()`},
	} {
		require.EqualValues(t, 200, v.open(t, p.page))
		v.look(t, p.theme, p.width)
		if p.then != "" {
			eval[any](t, v, "void ("+p.then+")")
		}
		text := smaller(t, v.shot(t))
		require.Less(t, len(text), 60_000, p.name)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "console-"+p.name+".png"), text, 0o644))
	}
}

// shot is a picture of the page down to its last element.
func (b *tab) shot(t *testing.T) []byte {
	t.Helper()
	size := eval[struct{ Width, Height float64 }](t, b, `({Width: innerWidth, Height: Math.ceil(document.querySelector("main").lastElementChild.getBoundingClientRect().bottom + scrollY + 16)})`)
	return must(t, b, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatPng, CaptureBeyondViewport: new(true), FromSurface: new(true),
		Clip: &page.Viewport{Width: size.Width, Height: size.Height, Scale: 1},
	}).Data
}

// smaller keeps the 256 most frequent colours of a picture and replaces the others by the nearest
// of them.
func smaller(t *testing.T, text []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(text))
	require.NoError(t, err)
	used := map[color.Color]int{}
	bounds := full.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			used[full.At(x, y)]++
		}
	}
	palette := slices.SortedFunc(maps.Keys(used), func(a, b color.Color) int { return cmp.Compare(used[b], used[a]) })
	few := image.NewPaletted(bounds, palette[:min(len(palette), 256)])
	draw.Draw(few, bounds, full, bounds.Min, draw.Src)
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few))
	return out.Bytes()
}
