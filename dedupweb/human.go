package dedupweb

import (
	"fmt"
	"strconv"
	"time"
)

// lasting is a time that has passed, in its largest unit.
func lasting(d time.Duration) string {
	in := func(n time.Duration, unit string) string { return strconv.FormatInt(int64(n), 10) + unit }
	switch {
	case d < time.Millisecond:
		return in(d.Round(time.Microsecond)/time.Microsecond, " µs")
	case d < time.Second:
		return strconv.FormatFloat(float64(d.Round(100*time.Microsecond))/float64(time.Millisecond), 'f', -1, 64) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	case d.Round(time.Second) < time.Minute:
		return in(d.Round(time.Second)/time.Second, " s")
	case d.Round(time.Minute) < time.Hour:
		return in(d.Round(time.Minute)/time.Minute, " min")
	case d.Round(time.Hour) < 48*time.Hour:
		return in(d.Round(time.Hour)/time.Hour, " h")
	default:
		return in(d.Round(24*time.Hour)/(24*time.Hour), " days")
	}
}

// ago says when something was or will be.
func ago(t, now time.Time) string {
	switch age := now.Sub(t); {
	case age >= time.Second:
		return lasting(age.Round(time.Second)) + " ago"
	case age > -time.Second:
		return "now"
	default:
		return "in " + lasting((-age).Round(time.Second))
	}
}

// count writes a number with a comma between thousands.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// tone is how a state, an outcome or an action is coloured.
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
