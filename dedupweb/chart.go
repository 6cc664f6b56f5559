package dedupweb

import (
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/inspect"
)

const chartHeight = 120

// chart draws the calls of each part of a window as bars.
type chart struct {
	Width, Height int
	Most          int64  // the most calls in one part
	Part          string // the length of a part
	Bars          []bar
	// Text describes the chart for screen readers.
	Text string
}

// bar is one kind of calls in one part. It begins at Y and is Height high.
type bar struct {
	Class        string
	X, Y, Height int
	Title        string
}

func newChart(w window, recorded []inspect.Slice) *chart {
	const kinds = 3
	classes := [kinds]string{"executed", "duplicates", "others"}
	calls := make([][kinds]int64, w.parts)
	var all [kinds]int64
	part := w.span / time.Duration(w.parts)
	c := &chart{Width: 10 * w.parts, Height: chartHeight, Part: inspect.Lasting(part)}
	for _, s := range recorded {
		kind := 2
		switch {
		case inspect.HasRun(s.Outcome):
			kind = 0
		case inspect.IsDuplicate(s.Outcome):
			kind = 1
		}
		calls[s.Part][kind] += s.Calls
		all[kind] += s.Calls
	}
	for _, of := range calls {
		c.Most = max(c.Most, of[0]+of[1]+of[2])
	}
	for i, of := range calls {
		bottom := int64(0)
		for kind, n := range of {
			if n == 0 {
				continue
			}
			from, to := bottom*chartHeight/c.Most, (bottom+n)*chartHeight/c.Most
			bottom += n
			c.Bars = append(c.Bars, bar{
				Class: classes[kind], X: i * 10, Y: chartHeight - int(to), Height: int(to - from),
				Title: fmt.Sprintf("%s ago: %s %s", inspect.Lasting(w.span-time.Duration(i)*part), count(n), classes[kind]),
			})
		}
	}
	c.Text = fmt.Sprintf("Calls of the last %s: %s ran, %s duplicates, %s others; at most %s in %s.", w.Text, count(all[0]), count(all[1]), count(all[2]), count(c.Most), c.Part)
	return c
}
