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

// Do runs the effect of call's identity, or returns its recorded answer. Call.Tool may be empty.
// Call.Args is compared with the arguments of an earlier call; default in. Call.Retention,
// Call.StoreErrors and Call.LookFirst are ignored.
//
// Do waits for the answer until ctx ends or Call.MaxWait has passed. Then it returns
// [dedup.ErrInFlight], and the attempt goes on in this process: make the same call again, or let
// [Tools.Recover] finish it. With a negative MaxWait, which means 5 ms for [dedup.Do], Do makes at
// most one attempt or look-up, if one is due, and waits for that only. If only a person can find
// out the outcome, Do returns a *[ParkedError].
//
// The errors of a record are those of [dedup.Do]: ErrRefused, ErrKeyReused, ErrExpired, ErrBroken.
// [dedup.ErrAttemptsExhausted] means that the operation could not be claimed and nothing was sent.
// [dedup.ErrOutcomeUnknown] means that the claim may be committed; make the same call again. Inside
// an effect of package dedup, Do returns [dedup.ErrInvalid]; use Accept there.
func (h *Handle[In, Out]) Do(ctx context.Context, call dedup.Call, in In) (result dedup.Result[Out], err error) {
	c, err := h.check(call, in)
	if err == nil {
		err = h.x.usable(ctx)
	}
	if err != nil {
		return result, err
	}
	w := newWaiting(ctx, cmp.Or(call.MaxWait, h.x.d.Options().MaxWait))
	defer w.stop()
	var kept int64 // the fence of an ended operation that forget did not delete
	for {
		seen, err := h.x.claim(ctx, c)
		if err != nil {
			return result, err
		}
		if seen.rec != nil && !seen.rec.Forgotten() {
			return h.replay(ctx, c, seen.rec)
		}
		if seen.ended() {
			if seen.row.due() && !(w.impatient && w.acted) { // the recheck must run before the identity is free
				a, own, err := h.x.acts.start(ctx, c.Identity, false, func(ctx context.Context, a *act) {
					h.x.advance(ctx, a, h.t, seen.row, seen.began)
				})
				w.acted = w.acted || own
				if err == nil {
					err = w.wait(a, own, seen.row)
				}
				if err != nil {
					return result, c.dedupError(dedup.ErrInFlight, err)
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
			if !freed { // another process may have deleted it; claim once more
				kept = seen.row.fence
			}
			continue
		}
		a, own, err := h.x.proceed(ctx, h.t, c, &seen, w)
		if err != nil {
			return result, err
		}
		if err := w.wait(a, own, seen.row); err != nil {
			result.Waited = time.Since(w.began)
			return result, c.dedupError(dedup.ErrInFlight, err)
		}
		if own && a.isDone() && a.answered {
			return answered[Out](a)
		}
	}
}

// proceed starts the next act of an operation without an answer, if one is due. It returns the
// operation's act in this process, nil if there is none, and whether this call started it.
func (x *Tools) proceed(ctx context.Context, t *definition, c *checkedCall, seen *claimResult, w *waiting) (a *act, own bool, err error) {
	r := seen.row
	if r == nil { // a twin inserted it after the claim's snapshot
		return nil, false, nil
	}
	due := r.due() && !(w.impatient && w.acted)
	switch {
	case seen.inserted:
		h := &held{row: r, t: t, began: seen.began}
		a, own, err = x.acts.start(ctx, c.Identity, true, func(ctx context.Context, a *act) { x.perform(ctx, a, h) })
		if err != nil { // nothing was sent
			err = errors.Join(err, x.release(ctx, h, "the process ended before anything was sent"))
		}
	case !r.accepts(c.fingerprint):
		return nil, false, c.reused(r.argDigests, r.createdAt)
	case r.state == StateParked && !due:
		return nil, false, &ParkedError{r.operation()}
	case due:
		a, own, err = x.acts.start(ctx, c.Identity, false, func(ctx context.Context, a *act) { x.advance(ctx, a, t, r, seen.began) })
	default:
		a = x.acts.get(c.Identity)
	}
	w.acted = w.acted || own
	return a, own, err
}

// withoutRecord returns the error of a call whose operation is answered, whose record is deleted or
// forgotten, and whose row cannot be deleted yet.
func withoutRecord(r *row) error {
	op := r.operation()
	op.Note = "it was answered, and its record has been deleted"
	if r.dueAt != nil {
		op.Note = fmt.Sprintf("it was answered, and its record is forgotten; the key is free after a look-up at the provider, which is due at %s", r.dueAt.UTC().Format(time.RFC3339))
	}
	return &ParkedError{op}
}

// Do is [Handle.Do] for the tool named call.Tool, with its input and result as JSON. Use it if
// calls arrive as JSON. An input that does not fit the tool's In is a [dedup.ErrInvalid] whose
// Field is "in". Call.Args may be another part of the request; default in.
func (x *Tools) Do(ctx context.Context, call dedup.Call, in json.RawMessage) (dedup.Result[json.RawMessage], error) {
	t := x.tool(call.Tool)
	if t == nil {
		return dedup.Result[json.RawMessage]{}, unregistered()
	}
	h := &Handle[json.RawMessage, json.RawMessage]{x, t}
	return h.Do(ctx, call, in)
}

// answered returns the result of a call whose own act found the answer.
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

// replay answers from a record. It goes through dedup.Do, so that answers and trace events are
// those of package dedup.
func (h *Handle[In, Out]) replay(ctx context.Context, c *checkedCall, rec *table.Record) (dedup.Result[Out], error) {
	ctx = table.WithKnown(ctx, table.Known{Identity: c.Identity, Fingerprint: c.fingerprint, ArgDigests: c.argDigests, Record: rec})
	return dedup.Do(ctx, h.x.d, dedup.Call{Scope: c.Scope, Tool: c.Tool, Key: c.Key}, func(context.Context, pgx.Tx) (out Out, err error) {
		return out, errors.New("dedup: a call with a record was run")
	})
}
