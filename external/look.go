package external

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// find calls Find within the lease and the tool's Timeout. If Find ignores its context, find
// abandons it: the goroutine goes on, its result is dropped, and the next look-up asks again.
func (x *Tools) find(ctx context.Context, a *act, at *attempt) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, min(at.t.Timeout, x.opts.Lease*3/4), errTimeout)
	defer cancel()
	type found struct {
		outs []json.RawMessage
		err  error
	}
	answer := make(chan found, 1)
	asked, in := at.row.attempt(), at.row.in()
	a.abandoned.Go(func() {
		outs, err := safely(func() ([]json.RawMessage, error) { return at.t.Find(ctx, asked, in) })
		answer <- found{outs, err}
	})
	var f found
	select {
	case f = <-answer:
	case <-ctx.Done():
		f.err = context.Cause(ctx)
	}
	x.event(ctx, EventLooked, at.row, "", note(f.err))
	return f.outs, f.err
}

// look looks for the effects of earlier attempts. If there are none, it makes another attempt only
// if no earlier one can still take effect, or if the provider's key prevents a second effect.
//
// In the model: LOOKING and LOOKED in worker.pml.
func (x *Tools) look(ctx context.Context, a *act, at *attempt) {
	outs, err := x.find(ctx, a, at)
	var unrecorded *unrecordable
	switch {
	case errors.As(err, &unrecorded):
		a.err = x.parkUnrecorded(ctx, at, unrecorded.ref, verdict{}, err)
	case err != nil && at.row.state == Parked: // a failed look-up does not count
		a.err = x.lookAgain(ctx, at, at.row.tries, x.uncountedPause(at.row))
	case err != nil:
		a.err = x.postpone(ctx, at, note(err), false)
	case len(outs) > 0:
		x.found(ctx, a, at, outs)
	case at.row.state == Parked: // never attempted again
		looks := at.row.tries + 1
		a.err = x.lookAgain(ctx, at, looks, x.parkedPause(looks))
	case at.row.confirmed:
		a.err = x.notFoundYet(ctx, at)
	case at.settled(at.t.Settles) && !at.row.unmarked:
		x.resend(ctx, a, at, nil)
	case x.keyHolds(at.row, at.t):
		x.resend(ctx, a, at, x.keyUntil(at.row, at.t))
	case at.row.unmarked:
		a.err = x.giveUp(ctx, at, "not found, and an attempt was made by a release without Find, whose effect a look-up may not see")
	case at.t.Settles > 0:
		a.err = x.change(ctx, at, x.sql.settleLater, at.t.Settles, at.earlierUntil)
	default:
		a.err = x.giveUp(ctx, at, "not found, and it may still be on its way")
	}
}

// resend makes another attempt after a look-up that found nothing, if the time is not past before.
func (x *Tools) resend(ctx context.Context, a *act, at *attempt, before *time.Time) {
	if a.err = x.take(ctx, at, purpose{sends: true, goesOn: true, before: before}); a.err == nil {
		x.event(ctx, EventResent, at.row, "", "a look found nothing")
		x.perform(ctx, a, at)
	}
}

// settled reports whether no earlier attempt could take effect or become visible any more when the
// look-up began. The look-up began after the row was taken.
func (at *attempt) settled(settles time.Duration) bool {
	return at.earlierUntil == nil || settles > 0 && !at.row.now.Before(at.earlierUntil.Add(settles))
}

// found records the effects that a look-up found.
func (x *Tools) found(ctx context.Context, a *act, at *attempt, outs []json.RawMessage) {
	x.event(ctx, EventFound, at.row, at.t.Ref(outs[0]), "")
	x.record(ctx, a, at, outs...)
}

// lookAgain keeps an operation parked until its next look-up, nil for none. looks is how many it
// has had.
func (x *Tools) lookAgain(ctx context.Context, at *attempt, looks int, next *time.Duration) error {
	return x.change(ctx, at, x.sql.park, next, value(at.row.note), nil, nil, nil, looks)
}

// exists handles ErrExists: the provider says that it has an effect of the key. The row stores
// that, and nothing is sent again, because the provider may forget its key before a look-up finds
// the effect.
//
// In the model: the answer EXISTS in worker.pml.
func (x *Tools) exists(ctx context.Context, a *act, at *attempt, why error) {
	if at.t.Find == nil {
		a.err = x.park(ctx, at, "no answer: "+note(why))
		return
	}
	if a.err = x.change(ctx, at, x.sql.exists, x.opts.Lease); a.err == nil {
		at.row = at.changed
		x.look(ctx, a, at)
	}
}

// maxUnseen is how often an effect that the provider says exists is looked up before the operation
// is parked.
const maxUnseen = 10

func (x *Tools) notFoundYet(ctx context.Context, at *attempt) error {
	const why = "the provider has an effect of this key, and it cannot be found"
	if at.row.tries > maxUnseen {
		return x.park(ctx, at, why)
	}
	return x.postpone(ctx, at, why, true)
}

// audit looks once more after an answer that relied on a look-up which found nothing. If that was
// wrong, there are now two effects, or one beside a refusal. The audit takes the operation first,
// so that one process looks at a time.
//
// In the model: the audit in worker.pml.
func (x *Tools) audit(ctx context.Context, a *act, at *attempt) error {
	if at.t.Find == nil { // the answer relied on an operator's Never
		return x.change(ctx, at, x.sql.audited, nil)
	}
	if err := x.tryChange(ctx, at, x.sql.audit, append(byFence(at.row), x.opts.Lease)...); err != nil {
		return err
	}
	at.row = at.changed
	outs, err := x.find(ctx, a, at)
	if err != nil && at.row.tries < maxTries {
		pause := x.backoff(at.row)
		return x.change(ctx, at, x.sql.audited, &pause)
	}
	for _, out := range outs {
		if err := x.markTwice(ctx, at, at.t.Ref(out)); err != nil {
			return err
		}
	}
	return x.change(ctx, at, x.sql.audited, nil)
}

// markTwice adds an effect to the operation's Twice, unless ref is already in the row.
func (x *Tools) markTwice(ctx context.Context, at *attempt, ref string) error {
	var marked *row
	err := x.retryFor(ctx, forever, func() (err error) {
		marked, err = one(x.rows(ctx, x.sql.twice, append(byCreation(at.row), refOrNone(ref))...))
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
