package httpdedup

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// externalWait is how long a request waits for its effect.
func (m *Middleware) externalWait(r *http.Request) time.Duration {
	wait := max(m.opts.MaxWait, 0)
	if preferred, ok := preferredWait(r.Header["Prefer"]); ok {
		wait = min(wait, preferred)
	}
	// Nothing at all would be the Deduper's own.
	return max(wait, 1)
}

// preferredWait reads the preference "wait" (RFC 7240) from all header lines: seconds. The
// first one counts, and what is malformed is as if it were not there.
func preferredWait(lines []string) (time.Duration, bool) {
	for preference := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		preference, _, _ = strings.Cut(preference, ";")
		name, value, _ := strings.Cut(preference, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 32)
		return time.Duration(seconds) * time.Second, err == nil
	}
	return 0, false
}
