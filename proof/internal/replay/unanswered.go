package replay

import (
	"fmt"
	"strings"
	"unicode"
)

// The orchestrator sends a call again until it has sent it maxDeliveries times.
// It stops after maxAlike equal errors in a row: a plan has at most three faults for one
// delivery.
const (
	maxDeliveries = 25
	maxAlike      = 5
)

// unanswered are the deliveries of one call that were not answered.
type unanswered struct {
	deliveries int
	alike      int    // how many of the last ones failed with one error
	last       string // that error, without its digits
}

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
		u.last, u.alike = text, 0
	}
	u.alike++
	switch {
	case u.alike >= maxAlike:
		return fmt.Errorf("the last %d deliveries failed with one error, which no fault of the plan does: %w", u.alike, err)
	case u.deliveries >= maxDeliveries:
		return fmt.Errorf("no answer after %d deliveries, at last: %w", u.deliveries, err)
	}
	return nil
}
