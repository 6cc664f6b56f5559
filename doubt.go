package dedup

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// doubt is what is open about a call once the answer to its commit is lost.
type doubt struct {
	// err is the fault that hid the outcome; nil where nothing is open.
	err error
	// sent is a time before the first such COMMIT was sent, by this machine's clock.
	sent time.Time
	// until is when, by the database's clock, the doubt can end: an attempt or a
	// look-up that finds the identity free later proves that nothing was committed.
	// Zero: any does, because the lock or claim outlives the commit.
	until time.Time
}

// never is the end of a doubt that no free identity ends, only a record.
var never = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

func (d *doubt) add(err error, sent, until time.Time) {
	if d.err == nil {
		d.sent = sent
	}
	d.err = err
	if until.After(d.until) {
		d.until = until
	}
}

// resolvedBy removes the doubt where an attempt has proved that nothing was committed.
func (d *doubt) resolvedBy(free bool, started time.Time) {
	if free && started.After(d.until) {
		*d = doubt{}
	}
}

// provable reports whether finding no record still proves that an earlier commit of this
// call did not take place. Its record may be forgotten by now, and swept or not: to run again
// could then repeat the effect. Half of the time that the record is remembered is left for
// clocks that differ, this machine's from the server's and those of two servers in a
// failover.
func (d *doubt) provable(remembered time.Duration) bool {
	return d.err == nil || time.Since(d.sent) < remembered/2
}

// errForgotten is why a call with a lost COMMIT makes no further attempt.
var errForgotten = errors.New("dedup: too late to find out: the record is remembered for a shorter time than that took; see Retention")

// unknown is the caller's error where cause has ended the attempts.
func (d *doubt) unknown(attempts int, cause error) *Error {
	err := d.err
	if cause != nil && cause != d.err {
		err = fmt.Errorf("%w (%w)", d.err, cause)
	}
	return &Error{Answer: ErrOutcomeUnknown, Attempts: attempts, Until: d.until, Err: err}
}

// serverClock estimates the database's clock from the times in its answers. It is
// never ahead by more than the clocks have gone apart since the last answer.
type serverClock struct {
	made  time.Time
	ahead atomic.Int64 // of the time since made; in microseconds
}

// seen takes note of a time in an answer that has just come, unless there is none in it.
func (c *serverClock) seen(at time.Time) {
	if at.IsZero() {
		return
	}
	c.ahead.Store(at.UnixMicro() - time.Since(c.made).Microseconds())
}

// in is the time after d.
func (c *serverClock) in(d time.Duration) time.Time {
	return time.UnixMicro(c.ahead.Load() + time.Since(c.made).Microseconds() + d.Microseconds())
}
