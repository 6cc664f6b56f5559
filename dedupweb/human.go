package dedupweb

import (
	"fmt"
	"strconv"
)

// count formats a number with a comma between thousands.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// tone is the colour class of a state, an outcome or an action.
func tone(state any) string {
	switch fmt.Sprint(state) {
	case "done", "executed", "happened":
		return "good"
	case "in flight", "running", "pending", "claimed":
		return "busy"
	case "parked", "never":
		return "warn"
	case "broken":
		return "bad"
	}
	return "calm"
}
