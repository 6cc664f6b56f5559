package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
)

// ask is a call on its way.
type ask struct {
	table.Identity
	fingerprint [32]byte
	argDigests  []byte
	input       string
	retention   dedup.Retention
	// nonce tells the claims of this call from others. lostSince is before the first of them was sent
	// whose answer was lost, zero where none was.
	nonce     string
	lostSince time.Time
}

// ask checks a call.
func (h *Handle[In, Out]) ask(call dedup.Call, in In) (*ask, error) {
	if call.Tool != "" && call.Tool != h.t.name {
		return nil, &dedup.InvalidError{What: "call", Field: "Tool", Reason: "is another tool's; leave it empty"}
	}
	id, err := identity(call.Scope, h.t.name, call.Key)
	if err != nil {
		return nil, err
	}
	compared := call.Args
	if compared == nil {
		compared = in
	}
	o := &ask{Identity: id, retention: h.t.retention, nonce: newNonce()}
	fingerprint, digests, err := canon.Digest(id.Scope, id.Tool, id.Key, compared)
	o.fingerprint, o.argDigests = fingerprint, digests
	if err == nil {
		_, err = canon.FingerprintOf(in)
	}
	if problem, ok := errors.AsType[*canon.Error](err); ok {
		return nil, &dedup.InvalidError{What: "call", Field: "Args", Reason: problem.Reason, Err: problem.Err}
	}
	if err != nil {
		return nil, err
	}
	text, err := marshal(in)
	if err != nil {
		return nil, err
	}
	o.input = string(text)
	return o, h.t.takes(text)
}

// Do runs the effect for call's identity, or answers what became of it. Call.Tool may be
// left empty. Call.Args is what is compared with an earlier call; default in. Call.Retention, Call.Errors and Call.LookFirst
// do not count.
//
// It waits until the effect is answered for, as long as ctx lives and Call.MaxWait allows. When
// they end first, the answer is [dedup.ErrInFlight], and the attempt goes on in this process:
// make the same call again, or let [Tools.Recover] end it. A negative MaxWait does at most one
// thing for the operation, the attempt or the look that is due, waits for that alone, and
// begins nothing after it. A call whose outcome only a
// person can find out is a *[ParkedError].
//
// The errors of a record are those of [dedup.Do]: ErrRefused, ErrKeyReused, ErrExpired,
// ErrBroken. [dedup.ErrAttemptsExhausted] means that the operation could not be claimed, and
// nothing was sent; [dedup.ErrOutcomeUnknown] that it could not be read whether it was.
// Inside an effect of package dedup, Do is an [dedup.ErrInvalid]: use Accept there.
func (h *Handle[In, Out]) Do(ctx context.Context, call dedup.Call, in In) (dedup.Result[Out], error) {
	o, err := h.ask(call, in)
	if err == nil {
		err = h.x.open()
	}
	if err == nil && guard.Inside(ctx) {
		err = errInside
	}
	if err != nil {
		return dedup.Result[Out]{}, err
	}
	w := newWaiting(call.MaxWait, h.x.d.Options().MaxWait)
	defer w.stop()
	for acted := false; ; {
		seen, err := h.x.claim(ctx, h.t, o)
		if err != nil {
			return dedup.Result[Out]{}, err
		}
		if seen.rec != nil && !seen.rec.Forgotten() {
			return h.replay(ctx, o, seen.rec)
		}
		r := seen.row
		var mine *act
		started := seen.mine
		due := r != nil && r.due() && !(w.impatient && acted)
		switch {
		case r == nil: // somebody has inserted it since this statement began
			r = &row{}
		case seen.mine:
			at := &attempt{row: r, t: h.t, began: seen.began}
			mine, _, err = h.x.start(ctx, o.Identity, true, func(ctx context.Context, a *act) { h.x.perform(ctx, a, at) })
			if err != nil { // nothing was sent
				err = errors.Join(err, h.x.release(ctx, at, "the process has ended before anything was sent"))
			}
		case r.state == Done:
			// Its record is forgotten, or somebody has deleted it: both were read at once.
			freed, err := h.x.forget(ctx, r)
			if err != nil {
				return dedup.Result[Out]{}, err
			}
			if freed {
				continue
			}
			op := r.operation()
			op.Note = "it was answered, and its record has been deleted"
			return dedup.Result[Out]{}, &ParkedError{op}
		case [32]byte(r.fingerprint) != o.fingerprint:
			return dedup.Result[Out]{}, o.reused(r.argDigests, r.createdAt)
		case r.state == Parked && !due:
			return dedup.Result[Out]{}, &ParkedError{r.operation()}
		case due:
			mine, started, err = h.x.start(ctx, o.Identity, false, func(ctx context.Context, a *act) { h.x.advance(ctx, a, h.t, r, seen.began) })
		default:
			mine = h.x.at(o.Identity)
		}
		if err != nil {
			return dedup.Result[Out]{}, err
		}
		acted = acted || started
		if err := w.wait(ctx, mine, started, r); err != nil {
			return dedup.Result[Out]{Waited: time.Since(w.began)}, o.answer(dedup.ErrInFlight, err)
		}
		if started && mine.isDone() && mine.answered {
			return h.answered(mine)
		}
	}
}

// Do is [Handle.Do] by the tool's name, which is call.Tool, with input and result as JSON: for
// those to whom calls come as JSON. An input that does not fit the tool's In is an [dedup.ErrInvalid] whose
// Field is "in". Call.Args, what is compared, may be another part of what came; default in.
func (x *Tools) Do(ctx context.Context, call dedup.Call, in json.RawMessage) (dedup.Result[json.RawMessage], error) {
	t := x.tool(call.Tool)
	if t == nil {
		return dedup.Result[json.RawMessage]{}, unregistered()
	}
	h := &Handle[json.RawMessage, json.RawMessage]{x, t}
	return h.Do(ctx, call, in)
}

func unregistered() error {
	return &dedup.InvalidError{What: "call", Field: "Tool", Reason: "is not registered here"}
}

// answered is the answer of a call whose own act has come to it, at its first attempt or later.
func (h *Handle[In, Out]) answered(a *act) (result dedup.Result[Out], err error) {
	result = dedup.Result[Out]{
		Replayed: a.result.Replayed, Recovered: a.result.Recovered, Attempts: a.result.Attempts,
		CreatedAt: a.result.CreatedAt, ExpiresAt: a.result.ExpiresAt,
	}
	if a.err != nil {
		return result, a.err
	}
	result.Value, err = decode[Out](a.result.Value)
	return result, err
}

// replay answers from a record. What it answers, and which events it makes, is up to
// package dedup.
func (h *Handle[In, Out]) replay(ctx context.Context, o *ask, rec *table.Record) (dedup.Result[Out], error) {
	return dedup.Do(ctx, h.x.d, dedup.Call{
		Scope: o.Scope, Tool: o.Tool, Key: o.Key,
		Args: table.Known{Fingerprint: o.fingerprint, ArgDigests: o.argDigests, Record: rec},
	}, func(context.Context, pgx.Tx) (out Out, err error) {
		return out, errors.New("dedup: a call with a record was run")
	})
}

// answer is an error that an operation without a record answers.
func (o *ask) answer(answer, cause error) error {
	return &dedup.Error{Answer: answer, Scope: o.Scope, Tool: o.Tool, KeyHash: dedup.KeyHash(o.Key), Err: cause}
}

// waiting is how long a call may wait, and how it does.
type waiting struct {
	began     time.Time
	impatient bool
	limit     <-chan time.Time
	stop      func()
	pause     time.Duration
}

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

func newWaiting(max, fallback time.Duration) *waiting {
	if max == 0 {
		max = fallback
	}
	w := &waiting{began: time.Now(), impatient: max < 0, stop: func() {}, pause: firstPause}
	if max > 0 {
		timer := time.NewTimer(max)
		w.limit, w.stop = timer.C, func() { timer.Stop() }
	}
	return w
}

var errWaited = errors.New("MaxWait has passed")

// wait returns when it is worth looking again, or why not to wait any longer. a is what
// this process does for the operation, nil where another one does it.
func (w *waiting) wait(ctx context.Context, a *act, own bool, r *row) error {
	if w.impatient && !own {
		return errWaited
	}
	var done <-chan struct{}
	var again <-chan time.Time
	if a != nil {
		done = a.over
	} else {
		pause := w.pause
		if r.dueAt != nil {
			pause = min(pause, max(r.dueAt.Sub(r.now), firstPause))
		}
		w.pause = min(w.pause*5/4, lastPause)
		timer := time.NewTimer(pause)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-done:
		return nil
	case <-again:
		return nil
	case <-w.limit:
		return errWaited
	case <-ctx.Done():
		return fmt.Errorf("dedup: while waiting for the effect: %w", context.Cause(ctx))
	}
}
