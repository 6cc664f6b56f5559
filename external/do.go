package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
)

// Do runs the effect for call's identity, or answers what became of it. Call.Tool may be
// left empty. Call.Args is what is compared with an earlier call; default in. Call.Retention, Call.StoreErrors and Call.LookFirst
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
func (h *Handle[In, Out]) Do(ctx context.Context, call dedup.Call, in In) (result dedup.Result[Out], err error) {
	o, err := h.ask(call, in)
	if err == nil {
		err = h.x.usable(ctx)
	}
	if err != nil {
		return result, err
	}
	w := newWaiting(ctx, cmp.Or(call.MaxWait, h.x.d.Options().MaxWait))
	defer w.stop()
	var kept int64 // the fence of an ended operation that could not be deleted
	for {
		seen, err := h.x.claim(ctx, o)
		if err != nil {
			return result, err
		}
		if seen.rec != nil && !seen.rec.Forgotten() {
			return h.replay(ctx, o, seen.rec)
		}
		if seen.ended() {
			if seen.row.due() && !(w.impatient && w.acted) { // the look after the answer, before the identity is free
				a, own, err := h.x.acts.start(ctx, o.Identity, false, func(ctx context.Context, a *act) {
					h.x.advance(ctx, a, h.t, seen.row, seen.began)
				})
				w.acted = w.acted || own
				if err == nil {
					err = w.wait(a, own, seen.row)
				}
				if err != nil {
					return result, o.answer(dedup.ErrInFlight, err)
				}
				continue
			}
			if seen.row.fence == kept {
				return result, withoutRecord(seen.row)
			}
			freed, err := h.x.forget(ctx, h.x.pool, seen.row)
			if err != nil {
				return result, err
			}
			if !freed { // perhaps somebody else has freed it meanwhile
				kept = seen.row.fence
			}
			continue
		}
		a, own, err := h.x.goOn(ctx, h.t, o, &seen, w)
		if err != nil {
			return result, err
		}
		if err := w.wait(a, own, seen.row); err != nil {
			result.Waited = time.Since(w.began)
			return result, o.answer(dedup.ErrInFlight, err)
		}
		if own && a.isDone() && a.answered {
			return answered[Out](a)
		}
	}
}

// goOn does what is due for a call's operation that has no answer. It returns what this process does for it, nil
// where it does nothing, and whether this call has begun that.
func (x *Tools) goOn(ctx context.Context, t *definition, o *ask, seen *sight, w *waiting) (a *act, own bool, err error) {
	r := seen.row
	if r == nil { // somebody has inserted it since the statement began
		return nil, false, nil
	}
	due := r.due() && !(w.impatient && w.acted)
	switch {
	case seen.mine:
		at := &attempt{row: r, t: t, began: seen.began}
		a, own, err = x.acts.start(ctx, o.Identity, true, func(ctx context.Context, a *act) { x.perform(ctx, a, at) })
		if err != nil { // nothing was sent
			err = errors.Join(err, x.release(ctx, at, "the process has ended before anything was sent"))
		}
	case [32]byte(r.fingerprint) != o.fingerprint:
		return nil, false, o.reused(r.argDigests, r.createdAt)
	case r.state == Parked && !due:
		return nil, false, &ParkedError{r.operation()}
	case due:
		a, own, err = x.acts.start(ctx, o.Identity, false, func(ctx context.Context, a *act) { x.advance(ctx, a, t, r, seen.began) })
	default:
		a = x.acts.at(o.Identity)
	}
	w.acted = w.acted || own
	return a, own, err
}

// withoutRecord is the answer to a call whose operation has an answer and may not be forgotten yet, and whose record
// is forgotten, or was deleted.
func withoutRecord(r *row) error {
	op := r.operation()
	op.Note = "it was answered, and its record has been deleted"
	if r.dueAt != nil {
		op.Note = fmt.Sprintf("it was answered, and its record is forgotten; the key is free after a look at the provider, which is due at %s", r.dueAt.UTC().Format(time.RFC3339))
	}
	return &ParkedError{op}
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

// answered is the answer of a call whose own act has come to it, at its first attempt or later.
func answered[Out any](a *act) (result dedup.Result[Out], err error) {
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
	ctx = table.WithKnown(ctx, table.Known{Identity: o.Identity, Fingerprint: o.fingerprint, ArgDigests: o.argDigests, Record: rec})
	return dedup.Do(ctx, h.x.d, dedup.Call{Scope: o.Scope, Tool: o.Tool, Key: o.Key}, func(context.Context, pgx.Tx) (out Out, err error) {
		return out, errors.New("dedup: a call with a record was run")
	})
}
