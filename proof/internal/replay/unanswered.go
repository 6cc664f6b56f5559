package replay

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// The orchestrator sends a call again until it has sent it maxDeliveries times.
// It stops earlier where the error is always the same one: a plan has at most
// three faults for one delivery. maxAlike in a row are not of its making; where
// they have taken as long as slow, slowAlike of them are enough.
const (
	maxDeliveries = 25
	maxAlike      = 5
	slowAlike     = 4
	slow          = 6 * time.Second
)

// unanswered are the deliveries of one call that were not answered.
type unanswered struct {
	deliveries int
	alike      int       // how many of the last ones failed with one error
	last       string    // that error, without its digits
	since      time.Time // when the first of them was sent
	sent       time.Time // when the present one was
}

func newUnanswered() *unanswered { return &unanswered{sent: time.Now()} }

// add notes why a delivery was not answered. The error that it returns says that
// the call is not to be sent again.
func (u *unanswered) add(err error) error {
	u.deliveries++
	// Two errors are the same one where only a port, a process or a time differs.
	text := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
	if text != u.last {
		u.last, u.alike, u.since = text, 0, u.sent
	}
	u.alike++
	u.sent = time.Now()
	switch {
	case u.alike >= maxAlike, u.alike >= slowAlike && u.sent.Sub(u.since) >= slow:
		return fmt.Errorf("the last %d deliveries failed with one error, which no fault of the plan does: %w", u.alike, err)
	case u.deliveries >= maxDeliveries:
		return fmt.Errorf("no answer after %d deliveries, at last: %w", u.deliveries, err)
	}
	return nil
}
