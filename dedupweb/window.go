package dedupweb

import "time"

// window is a span of time up to now. Its chart has parts bars.
type window struct {
	// Name is for addresses, Short for buttons, and Text for sentences.
	Name, Short, Text string
	span              time.Duration
	parts             int
	// ticks is the number of ticks between two readings. A long window changes slowly and has many
	// rows.
	ticks time.Duration
}

// windows are the windows to choose from.
var windows = []window{
	{"1h", "1 h", "hour", time.Hour, 30, 1},
	{defaultWindow, "24 h", "24 hours", 24 * time.Hour, 48, 1},
	{"7d", "7 days", "7 days", 7 * 24 * time.Hour, 56, 12},
}

// defaultWindow is the name of the window that is shown by default.
const defaultWindow = "24h"

// Windows are the windows to choose from.
func (*overview) Windows() []window { return windows }

// windowOf returns the window of a name.
func windowOf(name string) (window, bool) {
	for _, w := range windows {
		if w.Name == name {
			return w, true
		}
	}
	return window{}, false
}
