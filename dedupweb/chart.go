package dedupweb

import (
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/inspect"
)

const chartHeight = 120

// chart draws the calls of each part of the time as bars.
type chart struct {
	Height int
	Most   int64 // calls in one part
	Bars   []bar
	// Text says what it shows to those who do not see it.
	Text string
}

// bar is one kind of calls in one part: from Y down, Height high.
type bar struct {
	Class        string
	X, Y, Height int
	Title        string
}

func newChart(recorded []inspect.Slice) *chart {
	const kinds = 3
	classes := [kinds]string{"executed", "duplicates", "rest"}
	var calls [parts][kinds]int64
	var all [kinds]int64
	c := &chart{Height: chartHeight}
	for _, s := range recorded {
		kind := 2
		switch {
		case inspect.IsExecuted(s.Outcome):
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
	for part, of := range calls {
		bottom := int64(0)
		for kind, n := range of {
			if n == 0 {
				continue
			}
			from, to := bottom*chartHeight/c.Most, (bottom+n)*chartHeight/c.Most
			bottom += n
			c.Bars = append(c.Bars, bar{
				Class: classes[kind], X: part * 10, Y: chartHeight - int(to), Height: int(to - from),
				Title: fmt.Sprintf("%s ago: %d %s", span-time.Duration(part)*(span/parts), n, classes[kind]),
			})
		}
	}
	c.Text = fmt.Sprintf("Calls of the last %.0f hours: %d executed, %d duplicates, %d others; at most %d in one bar.", span.Hours(), all[0], all[1], all[2], c.Most)
	return c
}
