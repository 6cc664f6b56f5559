package dedup

import (
	"errors"
	"fmt"
	"time"
)

// lostCommit records a COMMIT whose reply never arrived. The zero value is: none.
//
// The next attempt finds out what became of it. If the attempt meets a record, that is the answer.
// If the identity is free, the attempt runs the effect again; the primary key keeps the effect
// single. If that attempt fails too, its error is the answer: it held the lock or the claim, so no
// earlier COMMIT of the call can have succeeded. wire.OutcomeOfCommit reads whether a reply counts
// as lost. DoTx has no lost COMMIT, because its caller commits.
type lostCommit struct {
	// err is the fault that hid the outcome.
	err error
	// sent is a time before the first such COMMIT was sent, by this machine's clock.
	sent time.Time
}

// add records another COMMIT whose reply never arrived.
func (l *lostCommit) add(err error, sent time.Time) {
	if l.err == nil {
		l.sent = sent
	}
	l.err = err
}

// provable reports whether a free identity still proves that the COMMIT did not take place. If its
// record may be forgotten by now, another run could repeat the effect. Half of the time that the
// record is remembered is left for clocks that differ: this machine's from the server's, and those
// of two servers in a failover.
func (l *lostCommit) provable(remembered time.Duration) bool {
	return time.Since(l.sent) < remembered/2
}

// errForgotten is the reason why a call with a lost COMMIT makes no further attempt.
var errForgotten = errors.New("dedup: too late to find out: the record is remembered for a shorter time than that took; see Retention")

// answer returns the error of a call that ends with err: ErrOutcomeUnknown if a COMMIT of the call is
// still lost, else err.
func (l *lostCommit) answer(err error, attempts int) error {
	if l.err == nil {
		return err
	}
	if answer, ok := errors.AsType[*Error](err); ok && answer.Answer == ErrOutcomeUnknown {
		return err
	}
	if err != l.err {
		err = fmt.Errorf("%w (%w)", l.err, err)
	}
	return &Error{Answer: ErrOutcomeUnknown, Attempts: attempts, Err: err}
}
