package dedup

import (
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// lostCommit records a COMMIT whose reply never arrived. The zero value means that no COMMIT was
// lost.
//
// wire.OutcomeOfCommit decides whether a reply counts as lost. next in attempts.go adds it here, and
// send in batch_split.go does so for a batch. The next attempt settles it:
//
//   - If it finds a record, the record is the answer. wrote says whether it is the call's own.
//   - If the identity is free, the attempt runs the effect again; the primary key keeps the effect
//     single. mayRun in attempt.go refuses if that proof is too old.
//   - If that attempt fails too, its error is the answer: the attempt held the lock or the claim,
//     so no earlier COMMIT of the call can have succeeded. makeAttempts then clears this state.
//
// DoTx never loses a COMMIT, because its caller commits. BeginFunc has its own loop in
// begin_func.go, and func_tx.go its COMMIT.
type lostCommit struct {
	// err is the fault that hid the outcome.
	err error
	// sent is a time before the first such COMMIT was sent, by this machine's clock.
	sent time.Time
	// written is the record that the last such COMMIT was for. It has the answer even if the
	// database does not keep it.
	written *table.Record
}

// add records another COMMIT whose reply never arrived.
func (l *lostCommit) add(err error, written table.Record) {
	if l.err == nil {
		l.sent = written.SentAt
	}
	l.err, l.written = err, &written
}

// provable reports whether a free identity still proves that the COMMIT did not take place. Once
// its record may be forgotten, another run could repeat the effect. Half of the time that the
// record is remembered is kept in reserve for clocks that differ: this machine's from the server's,
// and two servers' in a failover.
func (l *lostCommit) provable(remembered time.Duration) bool {
	return time.Since(l.sent) < remembered/2
}

// wrote reports whether a found record is most likely the one that the lost COMMIT was for, and not
// a twin's: it has the same answer and was written after the call began. The record's age is by the
// database's clock and the call's by this machine's, so 10 ms of difference are allowed. A record
// that does not keep its answer is recognised by [table.Record.IsOf].
func (l *lostCommit) wrote(rec *table.Record, callBegan time.Time) bool {
	switch {
	case l.written == nil:
		return false
	case rec.Kept():
		return rec.Outcome == l.written.Outcome && rec.Result == l.written.Result && rec.Age() <= time.Since(callBegan)+10*time.Millisecond
	default:
		return rec.IsOf(l.written)
	}
}

// errForgotten ends a call with a lost COMMIT that is too old to settle.
var errForgotten = errors.New("dedup: too late to look for the record, which may be forgotten already; raise Retention")

// orUnknown returns the error of a call that ends with err: ErrOutcomeUnknown if a COMMIT of the
// call is still lost, else err.
func (l *lostCommit) orUnknown(err error, attempts int) error {
	if l.err == nil {
		return err
	}
	if known, ok := errors.AsType[*Error](err); ok && known.Kind == ErrOutcomeUnknown {
		return err
	}
	if err != l.err {
		err = fmt.Errorf("%w (%w)", l.err, err)
	}
	return &Error{Kind: ErrOutcomeUnknown, Attempts: attempts, Err: err}
}
