package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// perform makes one attempt and records, postpones or parks the operation.
//
// In the model: the attempt and its answer in worker.pml, the provider in provider.pml.
func (x *Tools) perform(ctx context.Context, a *act, h *held) {
	x.event(ctx, EventClaimed, h.row, "", "")
	l := newLease(x, h)
	if l.over() { // this process was paused: another one may hold the operation, and nothing was sent
		a.err = x.release(ctx, h, "the lease ended before anything was sent")
		return
	}
	x.event(ctx, EventSending, h.row, "", "")
	out, err := x.call(ctx, a, l, h)
	x.event(ctx, EventAnswered, h.row, "", note(err))

	var unrecorded *unrecordable
	switch {
	case err == nil:
		x.record(ctx, a, h, out)
	case errors.As(err, &unrecorded):
		a.err = x.parkUnrecorded(ctx, h, unrecorded.ref, verdict{}, err)
	case errors.Is(err, ErrExists): // even if the error is also a refusal
		x.exists(ctx, a, h, err)
	case x.d.Refusal(err) != nil:
		x.refuse(ctx, a, h, err)
	case errors.As(err, new(*notDoneError)):
		a.err = x.release(ctx, h, note(err))
	case h.t.Find != nil || x.keyHolds(h.row, h.t):
		x.event(ctx, EventUnknown, h.row, "", note(err))
		a.err = x.postpone(ctx, h, note(err), true)
	default:
		a.err = x.park(ctx, h, "no answer: "+note(err))
	}
}

// call runs Perform within the lease and the tool's Timeout. A NotDone or a refusal counts only if
// no earlier request of the attempt may have taken effect.
func (x *Tools) call(ctx context.Context, a *act, l *lease, h *held) (out json.RawMessage, err error) {
	ctx, sent := withSent(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, h.t.Timeout, errTimeout)
	defer cancel()
	r := h.row // the lease replaces h.row when it is extended
	ctx, end := l.extend(ctx)
	defer end()
	// A Perform that ignores its context does not keep others from acting.
	defer context.AfterFunc(ctx, func() { a.leave() })()
	out, err = safely(func() (json.RawMessage, error) { return h.t.Perform(ctx, r.attempt(), r.in()) })
	// The reply to the last request says nothing about an earlier one, even under the same key: not
	// every provider keeps its refusals.
	speaks := errors.As(err, new(*notDoneError)) || x.d.Refusal(err) != nil
	if speaks && sent.doubtful() {
		err = fmt.Errorf("dedup: an earlier request of this attempt may have taken effect: %s", err.Error())
	}
	return out, err
}

var (
	errTimeout   = errors.New("dedup: the tool's Timeout has passed")
	errLeaseOver = errors.New("dedup: the lease has ended")
)

// safely runs f on a new goroutine and returns a panic or a runtime.Goexit, as of t.FailNow, as an
// error. The goroutine is needed because Goexit ends the one that it is called on. The process must
// survive, because only it may know the outcome.
func safely[T any](f func() (T, error)) (value T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("dedup: panic: %v", p)
			} else if !returned {
				err = errGoexit
			}
		}()
		value, err = f()
		returned = true
	}()
	<-done
	return value, err
}

var errGoexit = errors.New("dedup: the function ended its goroutine (runtime.Goexit) and has not returned")

// guarded is safely for a function without a value.
func guarded(f func() error) error {
	_, err := safely(func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// release ends an attempt that had no effect. Earlier attempts may still take effect: then the
// operation is postponed instead.
//
// In the model: release in row.pml.
func (x *Tools) release(ctx context.Context, h *held, why string) error {
	x.event(ctx, EventReleased, h.row, "", why)
	if h.earlierUntil == nil && h.row.tries < maxTries {
		return x.change(ctx, h, x.sql.release, x.backoff(h.row), why)
	}
	return x.postpone(ctx, h, why, false)
}

// maxTries is how often an operation is attempted and looked up before it is parked: about a week
// with the default lease.
//
// In the model: GIVES_UP in worker.pml.
const maxTries = 2700

// postpone makes the operation due again after a pause, in any process. ended is true if an attempt
// has just ended and may still take effect.
//
// In the model: postpone in row.pml.
func (x *Tools) postpone(ctx context.Context, h *held, why string, ended bool) error {
	if h.row.tries >= maxTries {
		return x.park(ctx, h, fmt.Sprintf("given up after %d tries: %s", h.row.tries, why))
	}
	return x.change(ctx, h, x.sql.postpone, x.backoff(h.row), why, ended)
}

// park leaves the operation to an operator. If the tool has Find, a few look-ups follow.
//
// In the model: park in row.pml.
func (x *Tools) park(ctx context.Context, h *held, why string) error {
	var until *time.Duration
	if h.t.Find != nil {
		until = x.parkedPause(0)
	}
	err := x.change(ctx, h, x.sql.park, until, why, nil, nil, nil, 0)
	x.parkedEvent(ctx, h, "", why) // also after a failed change, which may be committed
	return err
}

// parkedEvent traces EventParked with the latest fence that is known, which Resolve compares.
func (x *Tools) parkedEvent(ctx context.Context, h *held, ref, why string) {
	r := h.row
	if h.changed != nil {
		r = h.changed
	}
	x.event(ctx, EventParked, r, ref, why)
}

// parkUnrecorded parks an operation whose outcome is known but cannot be recorded, because its
// result cannot be encoded, Finish or Refused fails, or the database is too slow. v is the outcome
// as a verdict: it is stored and tried again at the times of a parked operation's look-ups. A try
// with a temporary error does not count.
//
// A success is stored even if another act holds the operation. It replaces the verdicts Never and
// Refuse, which are wrong then. If the row has another success, this one is a further effect. While
// the database fails, parkUnrecorded retries. If why is temporary, it does not: the caller records
// the outcome if the database is available again.
func (x *Tools) parkUnrecorded(ctx context.Context, h *held, ref string, v verdict, why error) error {
	text := unrecorded + note(why)
	if h.row.verdict != nil { // keep the verdict's actor and reason
		said, _, _ := strings.Cut(value(h.row.note), unrecorded)
		if said = strings.TrimSuffix(said, "; "); said != "" {
			text = said + "; " + text
		}
	}
	sql, where := x.sql.park, byFence(h.row)
	tries, until, most := 0, x.parkedPause(0), forever
	switch again := h.row.state == StateParked && h.row.verdict != nil; {
	case v.name == "":
		until = nil
	case v.name == verdictHappened && h.verdictFence == nil:
		sql, where = x.sql.keep, byCreation(h.row)
	case again && isTemporary(why):
		tries, until = h.row.tries, x.uncountedPause(h.row)
	case again:
		tries = h.row.tries + 1
		until = x.parkedPause(tries)
	}
	if isTemporary(why) {
		most = 0
	}
	err := x.retryFor(ctx, most, func() error {
		return x.tryChange(ctx, h, sql, append(where, until, text, optional(ref), optional(v.name), optional(v.value), tries)...)
	})
	if err == nil {
		x.parkedEvent(ctx, h, ref, text)
	}
	if errors.Is(err, errStale) && ref != "" { // the effect happened even if another act holds the operation
		err = errors.Join(err, x.markTwice(ctx, h, ref))
	}
	return err
}

// unrecorded begins the note of an operation that parkUnrecorded parked.
const unrecorded = "the outcome is known but cannot be recorded: "

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// maxNote is the most bytes of an error's text that are stored.
const maxNote = 1000

func note(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return cleaned(text[:min(len(text), maxNote)])
}

// cleaned removes bytes that Postgres cannot store as text.
func cleaned(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}
