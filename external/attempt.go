package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
)

// perform makes one attempt and deals with what comes of it.
//
// In the model: the attempt and its answer in worker.pml, what the provider does in
// provider.pml.
func (x *Tools) perform(ctx context.Context, a *act, at *attempt) {
	x.event(ctx, EventClaimed, at.row, "", "")
	l := newLease(x, at)
	if l.over() { // this process was paused: somebody else may be at it, and nothing was sent
		a.err = x.release(ctx, at, "the lease was over before anything was sent")
		return
	}
	x.event(ctx, EventSending, at.row, "", "")
	out, err := x.call(ctx, a, l, at)
	x.event(ctx, EventAnswered, at.row, "", note(err))

	var unrecorded *unrecordable
	switch {
	case err == nil:
		x.record(ctx, a, at, out)
	case errors.As(err, &unrecorded):
		a.err = x.insist(ctx, forever, func() error { return x.parkUnrecorded(ctx, at, unrecorded.ref, verdict{}, err) })
	case errors.Is(err, ErrExists): // whatever else the error says
		x.exists(ctx, a, at, err)
	case x.d.Refusal(err) != nil && !dedup.IsTransient(err): // a fault of some database is no refusal
		x.refuse(ctx, a, at, err)
	case errors.As(err, new(*notDoneError)):
		a.err = x.release(ctx, at, note(err))
	case at.t.Find != nil || x.keyHolds(at.row, at.t):
		x.event(ctx, EventUnknown, at.row, "", note(err))
		a.err = x.postpone(ctx, at, note(err), true)
	default:
		a.err = x.park(ctx, at, "no answer: "+note(err))
	}
}

// call runs Perform within the lease and the tool's Timeout. What an attempt answers that
// may have sent more than it knows of is not taken for NotDone.
func (x *Tools) call(ctx context.Context, a *act, l *lease, at *attempt) (out json.RawMessage, err error) {
	ctx, sent := withSent(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, at.t.Timeout, errTimeout)
	defer cancel()
	r := at.row // the lease replaces it when it is extended
	ctx, end := l.extend(ctx)
	defer end()
	// A Perform that does not heed its context keeps nobody else from acting.
	defer context.AfterFunc(ctx, func() { a.leave() })()
	out, err = safely(func() (json.RawMessage, error) { return at.t.Perform(ctx, r.attempt(), r.in()) })
	// What the last request was answered says nothing of an earlier one, not even under one
	// key: not every provider keeps its refusals.
	speaks := errors.As(err, new(*notDoneError)) || x.d.Refusal(err) != nil
	if speaks && sent.doubtful() {
		err = fmt.Errorf("dedup: an earlier request of this attempt may have taken effect: %s", err.Error())
	}
	return out, err
}

var (
	errTimeout   = errors.New("dedup: the tool's Timeout has passed")
	errLeaseOver = errors.New("dedup: the lease is over")
)

// safely turns a panic and a runtime.Goexit, as of t.FailNow, into an error: the process must not end in the
// middle of what only it may know, and what a panic leaves behind is not known. f runs on a goroutine of its own, since a
// Goexit ends the goroutine that it is called on.
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

// guarded turns a panic and a runtime.Goexit into an error.
func guarded(f func() error) error {
	_, err := safely(func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// release ends an attempt that certainly had no effect. It speaks for itself only: where
// others came before it, they may still be out.
//
// In the model: release in row.pml.
func (x *Tools) release(ctx context.Context, at *attempt, why string) error {
	x.event(ctx, EventReleased, at.row, "", why)
	if at.earlier == nil && at.row.tries < maxTries {
		return x.change(ctx, at, x.sql.release, x.backoff(at.row), why)
	}
	return x.postpone(ctx, at, why, false)
}

// maxTries is how often an operation is attempted and looked up before it is parked: about a
// week with the default lease, after which only a person gets it further.
//
// In the model: GIVES_UP in worker.pml.
const maxTries = 2700

// postpone leaves the operation to whoever comes first after a pause. ended is true where
// an attempt has ended just now, and may still take effect.
//
// In the model: postpone in row.pml.
func (x *Tools) postpone(ctx context.Context, at *attempt, why string, ended bool) error {
	if at.row.tries >= maxTries {
		return x.park(ctx, at, fmt.Sprintf("given up after %d tries: %s", at.row.tries, why))
	}
	return x.change(ctx, at, x.sql.postpone, x.backoff(at.row), why, ended)
}

// park leaves the operation to a person. Where it can be looked up, it is, a few times more.
//
// In the model: park in row.pml.
func (x *Tools) park(ctx context.Context, at *attempt, why string) error {
	var until *time.Duration
	if at.t.Find != nil {
		until = x.parkedPause(0)
	}
	err := x.change(ctx, at, x.sql.park, until, why, nil, nil, nil, 0)
	x.parkedEvent(ctx, at, "", why) // also where the answer was lost: somebody has to look
	return err
}

// parkedEvent has the fence that Resolve goes by, where it is known.
func (x *Tools) parkedEvent(ctx context.Context, at *attempt, ref, why string) {
	r := at.row
	if at.changed != nil {
		r = at.changed
	}
	x.event(ctx, EventParked, r, ref, why)
}

// parkUnrecorded parks an operation that is decided and cannot be recorded, because of its
// result or of what the tool writes then. What is to be recorded is kept as a verdict and
// tried again, when a parked operation would be looked up.
func (x *Tools) parkUnrecorded(ctx context.Context, at *attempt, ref string, v verdict, why error) error {
	text := unrecorded + note(why)
	if at.row.verdict != nil { // who has said so is kept
		said, _, _ := strings.Cut(value(at.row.note), unrecorded)
		if said = strings.TrimSuffix(said, "; "); said != "" {
			text = said + "; " + text
		}
	}
	tries := 0
	if at.row.state == Parked {
		tries = at.row.tries + 1
	}
	var until *time.Duration
	if v.name != "" {
		until = x.parkedPause(tries)
	}
	err := x.tryChange(ctx, at, x.sql.park, until, text, optional(ref), optional(v.name), optional(v.value), tries)
	if err == nil {
		x.parkedEvent(ctx, at, ref, text)
	}
	if errors.Is(err, errStale) && ref != "" { // it happened all the same
		err = errors.Join(err, x.twice(ctx, at, ref))
	}
	return err
}

const unrecorded = "it is decided, and cannot be recorded: "

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// maxNote is the most bytes of an error's text that are kept.
const maxNote = 1000

func note(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return cleaned(text[:min(len(text), maxNote)])
}

// cleaned leaves out what Postgres cannot store as text.
func cleaned(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}
