package dedupweb

import "time"

// window is a time up to now that is shown, in so many parts where it is drawn.
type window struct {
	// Name stands in the address, Short on the page, and Text in a sentence.
	Name, Short, Text string
	span              time.Duration
	parts             int
	// ticks is how many ticks pass between two readings. A long window changes slowly and has
	// many rows.
	ticks time.Duration
}

// windows are those that there are to choose from.
var windows = []window{
	{"1h", "1 h", "hour", time.Hour, 30, 1},
	{usual, "24 h", "24 hours", 24 * time.Hour, 48, 1},
	{"7d", "7 days", "7 days", 7 * 24 * time.Hour, 56, 12},
}

// usual is the name of the window that is shown where none is chosen.
const usual = "24h"

// Windows are those to choose from.
func (*overview) Windows() []window { return windows }

// windowOf is the window of a name.
func windowOf(name string) (window, bool) {
	for _, w := range windows {
		if w.Name == name {
			return w, true
		}
	}
	return window{}, false
}
