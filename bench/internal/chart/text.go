package chart

import (
	"math"
	"strconv"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

// The measures of all charts, in units of the view box.
const (
	width      = 720
	margin     = 24
	headRoom   = 66 // title and subtitle
	legendRoom = 26
	axisRoom   = 46 // tick labels and the axis' name
	charWidth  = 6.6
	boldness   = 1.1 // how much wider bold text is
	largeness  = 1.1 // and labels, which are larger
	textRise   = 4   // from the middle of a line of text to its base line
	palette    = 6   // colours of the style sheet
)

// textWidth is about how wide a text is. The font is the reader's, so it can only
// be about.
func textWidth(s string) float64 { return charWidth * float64(len([]rune(s))) }

// tenth rounds a coordinate.
func tenth(v float64) float64 { return math.Round(v*10) / 10 }

// tickText writes a round value in short: 1.5, 2,500, 20k, 5M.
func tickText(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', -1, 64) + "k"
	case v >= 1e3:
		return figure.Thousands(int64(math.Round(v)))
	default:
		return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
	}
}
