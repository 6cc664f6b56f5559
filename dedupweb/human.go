package dedupweb

import (
	"fmt"
	"strconv"
	"strings"
)

// count formats a number with a comma between thousands.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// words is a state, an outcome or an action for people: "in_flight" is "in flight".
func words(state any) string { return strings.ReplaceAll(fmt.Sprint(state), "_", " ") }

// tone is the colour class of a state, an outcome or an action.
func tone(state any) string {
	switch fmt.Sprint(state) {
	case "done", "executed", "happened":
		return "good"
	case "in_flight", "running", "pending", "claimed":
		return "busy"
	case "parked", "never":
		return "warn"
	case "broken":
		return "bad"
	}
	return "calm"
}
