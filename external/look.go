package external

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// find calls Find within the lease and the tool's Timeout. If Find ignores its context, find
// abandons it: the goroutine goes on, its result is dropped, and the next look-up asks again.
func (x *Tools) find(ctx context.Context, a *act, h *held) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, min(h.t.Timeout, x.opts.Lease*3/4), errTimeout)
	defer cancel()
	type found struct {
		outs []json.RawMessage
		err  error
	}
	answer := make(chan found, 1)
	asked, in := h.row.attempt(), h.row.in()
	a.abandoned.Go(func() {
		outs, err := safely(func() ([]json.RawMessage, error) { return h.t.Find(ctx, asked, in) })
		answer <- found{outs, err}
	})
	var f found
	select {
	case f = <-answer:
	case <-ctx.Done():
		f.err = context.Cause(ctx)
	}
	x.event(ctx, EventLooked, h.row, "", note(f.err))
	return f.outs, f.err
}

// look looks for the effects of earlier attempts. If there are none, it makes another attempt only
// if no earlier one can still take effect, or if the provider's key prevents a second effect.
//
// In the model: LOOKING and LOOKED in worker.pml.
func (x *Tools) look(ctx context.Context, a *act, h *held) {
	outs, err := x.find(ctx, a, h)
	var unrecorded *unrecordable
	switch {
	case errors.As(err, &unrecorded):
		a.err = x.parkUnrecorded(ctx, h, unrecorded.ref, verdict{}, err)
	case err != nil && h.row.state == StateParked: // a failed look-up does not count
		a.err = x.lookAgain(ctx, h, h.row.tries, x.uncountedPause(h.row))
	case err != nil:
		a.err = x.postpone(ctx, h, note(err), false)
	case len(outs) > 0:
		x.found(ctx, a, h, outs)
	case h.row.state == StateParked: // never attempted again
		looks := h.row.tries + 1
		a.err = x.lookAgain(ctx, h, looks, x.parkedPause(looks))
	case h.row.confirmed:
		a.err = x.notFoundYet(ctx, h)
	case h.settled(h.t.Settles) && !h.row.unmarked:
		x.resend(ctx, a, h, nil)
	case x.keyHolds(h.row, h.t):
		x.resend(ctx, a, h, x.keyUntil(h.row, h.t))
	case h.row.unmarked:
		a.err = x.giveUp(ctx, h, "not found, and an attempt was made by a release without Find, whose effect a look-up may not see")
	case h.t.Settles > 0:
		a.err = x.change(ctx, h, x.sql.settleLater, h.t.Settles, h.earlierUntil)
	default:
		a.err = x.giveUp(ctx, h, "not found, and it may still be on its way")
	}
}

// resend makes another attempt after a look-up that found nothing, if the time is not past before.
func (x *Tools) resend(ctx context.Context, a *act, h *held, before *time.Time) {
	if a.err = x.take(ctx, h, purpose{sends: true, goesOn: true, before: before}); a.err == nil {
		x.event(ctx, EventResent, h.row, "", "a look-up found nothing")
		x.perform(ctx, a, h)
	}
}

// settled reports whether no earlier attempt could take effect or become visible any more when the
// look-up began. The look-up began after the row was taken.
func (h *held) settled(settles time.Duration) bool {
	return h.earlierUntil == nil || settles > 0 && !h.row.now.Before(h.earlierUntil.Add(settles))
}

// found records the effects that a look-up found.
func (x *Tools) found(ctx context.Context, a *act, h *held, outs []json.RawMessage) {
	x.event(ctx, EventFound, h.row, h.t.Ref(outs[0]), "")
	x.record(ctx, a, h, outs...)
}

// lookAgain keeps an operation parked until its next look-up, nil for none. looks is how many it
// has had.
func (x *Tools) lookAgain(ctx context.Context, h *held, looks int, next *time.Duration) error {
	return x.change(ctx, h, x.sql.park, next, value(h.row.note), nil, nil, nil, looks)
}

// exists handles ErrExists: the provider says that it has an effect of the key. The row stores
// that, and nothing is sent again, because the provider may forget its key before a look-up finds
// the effect.
//
// In the model: the answer EXISTS in worker.pml.
func (x *Tools) exists(ctx context.Context, a *act, h *held, why error) {
	if h.t.Find == nil {
		a.err = x.park(ctx, h, "no answer: "+note(why))
		return
	}
	if a.err = x.change(ctx, h, x.sql.exists, x.opts.Lease); a.err == nil {
		h.row = h.changed
		x.look(ctx, a, h)
	}
}

// maxUnseen is how often an effect that the provider says exists is looked up before the operation
// is parked.
const maxUnseen = 10

func (x *Tools) notFoundYet(ctx context.Context, h *held) error {
	const why = "the provider has an effect of this key, and it cannot be found"
	if h.row.tries > maxUnseen {
		return x.park(ctx, h, why)
	}
	return x.postpone(ctx, h, why, true)
}

// recheck looks once more after an answer that relied on a look-up which found nothing. If that was
// wrong, there are now two effects, or one beside a refusal. It takes the operation first, so that
// one process looks at a time.
//
// In the model: the recheck in worker.pml.
func (x *Tools) recheck(ctx context.Context, a *act, h *held) error {
	if h.t.Find == nil { // the answer relied on an operator's Never
		return x.change(ctx, h, x.sql.rechecked, nil)
	}
	if err := x.tryChange(ctx, h, x.sql.recheck, append(byFence(h.row), x.opts.Lease)...); err != nil {
		return err
	}
	h.row = h.changed
	outs, err := x.find(ctx, a, h)
	if err != nil && h.row.tries < maxTries {
		pause := x.backoff(h.row)
		return x.change(ctx, h, x.sql.rechecked, &pause)
	}
	for _, out := range outs {
		if err := x.markTwice(ctx, h, h.t.Ref(out)); err != nil {
			return err
		}
	}
	return x.change(ctx, h, x.sql.rechecked, nil)
}

// markTwice adds an effect to the operation's Twice, unless ref is already in the row.
func (x *Tools) markTwice(ctx context.Context, h *held, ref string) error {
	var marked *row
	err := x.retryFor(ctx, forever, func() (err error) {
		marked, err = one(x.rows(ctx, x.sql.twice, append(byCreation(h.row), refOrNone(ref))...))
		return err
	})
	if marked != nil && marked.twice != nil {
		x.event(ctx, EventTwice, marked, ref, "")
	}
	return wrap("marking an operation", err)
}

// byCreation returns the parameters $1 to $4 of a statement that changes an operation's row even if
// another act holds it.
func byCreation(r *row) []any { return []any{r.Scope, r.Tool, r.Key, r.createdAt} }

// refOrNone returns ref, or "(none)" for an effect of a tool without Ref.
func refOrNone(ref string) string {
	if ref == "" {
		return "(none)"
	}
	return ref
}
