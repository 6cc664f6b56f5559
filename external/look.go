package external

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// find asks the provider, within the lease and the tool's Timeout. One that does not heed its context
// is left behind: it holds up nobody, and what it would still find is found by the next look.
func (x *Tools) find(ctx context.Context, a *act, at *attempt) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, min(at.t.Timeout, x.opts.Lease*3/4), errTimeout)
	defer cancel()
	type found struct {
		outs []json.RawMessage
		err  error
	}
	answer := make(chan found, 1)
	asked, in := at.row.attempt(), at.row.in()
	a.behind.Go(func() {
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

// look finds out what became of earlier attempts, and makes another one only where none of
// them can take effect any more, or where the provider keeps it from being a second one.
//
// In the model: LOOKING and LOOKED in worker.pml.
func (x *Tools) look(ctx context.Context, a *act, at *attempt) {
	outs, err := x.find(ctx, a, at)
	var unrecorded *unrecordable
	switch {
	case errors.As(err, &unrecorded):
		a.err = x.insist(ctx, forever, func() error { return x.parkUnrecorded(ctx, at, unrecorded.ref, verdict{}, err) })
	case err != nil && at.row.state == Parked: // it does not count
		a.err = x.lookAgain(ctx, at, at.row.tries)
	case err != nil:
		a.err = x.postpone(ctx, at, note(err), false)
	case len(outs) > 0:
		x.found(ctx, a, at, outs)
	case at.row.state == Parked: // it is looked for, and never attempted again
		a.err = x.lookAgain(ctx, at, at.row.tries+1)
	case at.row.confirmed:
		a.err = x.notFoundYet(ctx, at)
	case at.settled(at.t.Settles) && !at.row.unmarked:
		x.resend(ctx, a, at, nil)
	case x.keyHolds(at.row, at.t):
		x.resend(ctx, a, at, x.keyUntil(at.row, at.t))
	case at.row.unmarked:
		a.err = x.giveUp(ctx, at, "not found, and an attempt was made by a release without Find, whose effect a look-up may not see")
	case at.t.Settles > 0:
		a.err = x.change(ctx, at, x.sql.settleLater, at.t.Settles, at.earlier)
	default:
		a.err = x.giveUp(ctx, at, "not found, and it may still be on its way")
	}
}

// resend makes another attempt after a look that found nothing, if it can begin before a
// time.
func (x *Tools) resend(ctx context.Context, a *act, at *attempt, before *time.Time) {
	if a.err = x.take(ctx, at, purpose{sends: true, goesOn: true, before: before}); a.err == nil {
		x.event(ctx, EventResent, at.row, "", "a look found nothing")
		x.perform(ctx, a, at)
	}
}

// settled reports whether no earlier attempt can take effect any more, or become visible:
// when the look began, which was after the row was taken, that time had passed.
func (at *attempt) settled(settles time.Duration) bool {
	return at.earlier == nil || settles > 0 && !at.row.now.Before(at.earlier.Add(settles))
}

// found records what a look has found. Where there is more than one effect, that is
// reported with the record.
func (x *Tools) found(ctx context.Context, a *act, at *attempt, outs []json.RawMessage) {
	x.event(ctx, EventFound, at.row, at.t.Ref(outs[0]), "")
	x.record(ctx, a, at, outs...)
}

// lookAgain leaves a parked operation parked until the next look for it, after so many.
func (x *Tools) lookAgain(ctx context.Context, at *attempt, looks int) error {
	return x.change(ctx, at, x.sql.park, x.parkedPause(looks), value(at.row.note), nil, nil, nil, looks)
}

// exists deals with a provider that says that it has an effect of the key. The row keeps that: the provider may forget
// its key before a look finds the effect, and nothing is sent again.
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

// maxUnseen is how often something that the provider says exists is looked for before the
// operation is parked.
const maxUnseen = 10

func (x *Tools) notFoundYet(ctx context.Context, at *attempt) error {
	const why = "the provider has an effect of this key, and it cannot be found"
	if at.row.tries > maxUnseen {
		return x.park(ctx, at, why)
	}
	return x.postpone(ctx, at, why, true)
}

// audit looks once more after an answer that relied on a look which found nothing: if that
// was wrong, there are two effects by now, or one beside a refusal. The operation is taken first, so
// that one process looks at a time.
//
// In the model: the audit in worker.pml.
func (x *Tools) audit(ctx context.Context, a *act, at *attempt) error {
	if at.t.Find == nil { // a person said that it never happened
		return x.change(ctx, at, x.sql.audited, nil)
	}
	if err := x.tryChange(ctx, at, x.sql.audit, x.opts.Lease); err != nil {
		return err
	}
	at.row = at.changed
	outs, err := x.find(ctx, a, at)
	if err != nil && at.row.tries < maxTries {
		pause := x.backoff(at.row)
		return x.change(ctx, at, x.sql.audited, &pause)
	}
	for _, out := range outs {
		if err := x.twice(ctx, at, at.t.Ref(out)); err != nil {
			return err
		}
	}
	return x.change(ctx, at, x.sql.audited, nil)
}

// twice marks an operation as one that happened more than once, unless ref is known.
func (x *Tools) twice(ctx context.Context, at *attempt, ref string) error {
	var marked *row
	err := x.insist(ctx, forever, func() (err error) {
		marked, err = one(x.rows(ctx, x.sql.twice, append(life(at.row), named(ref))...))
		return err
	})
	if marked != nil && marked.twice != nil {
		x.event(ctx, EventTwice, marked, ref, "")
	}
	return failed("marking an operation", err)
}

// life are the parameters of a statement that changes a row whoever holds it.
func life(r *row) []any { return []any{r.Scope, r.Tool, r.Key, r.createdAt} }

// named is a ref that shows that there is an effect, where the tool has no other.
func named(ref string) string {
	if ref == "" {
		return "(none)"
	}
	return ref
}
