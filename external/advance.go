package external

import (
	"context"
	"errors"
	"time"

	"github.com/tooldedup/dedup"
)

// held is an operation that an act holds. The act has lost it once the stored row has another fence
// than row.
type held struct {
	row *row
	t   *definition
	// began is this machine's clock before the statement that took the operation was sent.
	began time.Time
	// earlierUntil is the time until which earlier attempts may have sent something, nil if there
	// were none.
	earlierUntil *time.Time
	// verdictFence is set if the act records an operator's verdict: it is the fence of that
	// verdict.
	verdictFence *int64
	// changed is the row after the act's last write.
	changed *row
}

// errStale means that another act changed the operation first, and this act changed nothing.
var errStale = errors.New("dedup: another act has taken over the operation")

// Advance makes one attempt, look-up or other act for an operation if one is due, and returns the
// operation after it. A job that [Options.Enqueue] inserted calls it; extra calls do no harm. The
// tool must be registered. The error is a [dedup.ErrInvalid], the database's, or the context's. If
// ctx ends, Advance stops waiting, and the attempt goes on.
func (x *Tools) Advance(ctx context.Context, scope, tool, key string) (Operation, error) {
	id, err := identity(scope, tool, key)
	if err == nil {
		err = x.usable(ctx)
	}
	if err != nil {
		return Operation{}, err
	}
	t := x.tool(tool)
	if t == nil {
		return Operation{}, unregistered()
	}
	began := time.Now()
	op, r, err := x.lookup(ctx, id)
	if err != nil || r == nil || !r.due() {
		return op, err
	}
	a, _, err := x.acts.start(ctx, id, false, func(ctx context.Context, a *act) { x.advance(ctx, a, t, r, began) })
	if err != nil {
		return op, err
	}
	select {
	case <-a.over:
	case <-ctx.Done():
		return op, context.Cause(ctx)
	}
	op, _, err = x.lookup(ctx, id)
	if a.isDone() && !errors.Is(a.err, errStale) && !errors.Is(a.err, dedup.ErrRefused) {
		err = errors.Join(err, a.err)
	}
	return op, err
}

// advance does the next act that is due for r. docs/external.md has the table of cases.
//
// In the model: "Due: look, send, or park" in worker.pml.
func (x *Tools) advance(ctx context.Context, a *act, t *definition, r *row, began time.Time) {
	h := &held{row: r, t: t, began: began, earlierUntil: r.sentUntil}
	if r.state == StateDone {
		a.err = x.recheck(ctx, a, h)
		return
	}
	p, then := purpose{}, func() {
		a.err = x.giveUp(ctx, h, "an attempt ended without an answer, and the provider cannot be asked")
	}
	switch {
	case r.verdict != nil && *r.verdict != verdictNever:
		then = func() { x.carryOut(ctx, a, h) }
	case h.unread() != nil:
		then = func() { a.err = x.unreadable(ctx, h) }
	case r.state == StatePending:
		p, then = purpose{sends: true}, func() { x.perform(ctx, a, h) }
	case t.Find != nil:
		then = func() { x.look(ctx, a, h) }
	case r.state == StateRunning && x.keyHolds(r, t):
		p, then = purpose{sends: true, before: x.keyUntil(r, t)}, func() {
			x.event(ctx, EventResent, h.row, "", "")
			x.perform(ctx, a, h)
		}
	}
	if a.err = x.take(ctx, h, p); a.err == nil {
		then()
	}
}

// purpose is the reason for taking an operation.
type purpose struct {
	// sends is true for an attempt, false for a look-up.
	sends bool
	// goesOn is true if the attempt follows a look-up of the same act that found nothing.
	goesOn bool
	// before is the latest time at which the operation may be taken; nil is no limit. The statement
	// compares it, because time passes after the row was read.
	before *time.Time
}

// take makes this process the one that acts on an operation, or returns errStale.
//
// In the model: begin, if it sends, and take, if it does not, in row.pml.
func (x *Tools) take(ctx context.Context, h *held, p purpose) error {
	began := x.now()
	taken, err := one(x.rows(ctx, x.sql.take, append(byFence(h.row), p.sends, x.opts.Lease, p.goesOn, p.before, h.t.keyless(), h.t.unmarked())...))
	if err != nil {
		return wrap("taking an operation", err)
	}
	if taken == nil {
		return x.stale(ctx, h)
	}
	h.row, h.began = taken, began
	if !p.sends { // an earlier attempt may have been extended or ended after the row was read
		h.earlierUntil = taken.sentUntil
	}
	return nil
}

// stale ends an act that lost the operation to another one. If a record exists, it marks the row as
// done.
func (x *Tools) stale(ctx context.Context, h *held) error {
	x.event(ctx, EventFenced, h.row, "", "")
	orphaned, err := one(x.rows(ctx, x.sql.orphaned, append(byFence(h.row), x.remembered(h.t.Retention))...))
	if orphaned != nil && orphaned.twice != nil {
		x.event(ctx, EventTwice, orphaned, value(orphaned.twice), "")
	}
	return errors.Join(errStale, wrap("ending an operation", err))
}

// byFence returns the parameters $1 to $4 of a statement that changes a row only if it is unchanged
// since it was read.
func byFence(r *row) []any { return []any{r.Scope, r.Tool, r.Key, r.fence} }

// change changes the row of an act that still holds its operation. Only this process knows what is
// written, so change retries until the database is available.
func (x *Tools) change(ctx context.Context, h *held, sql string, args ...any) error {
	args = append(byFence(h.row), args...)
	return x.retryFor(ctx, forever, func() error { return x.tryChange(ctx, h, sql, args...) })
}

// tryChange changes an operation once. It returns errStale if no row has changed.
func (x *Tools) tryChange(ctx context.Context, h *held, sql string, args ...any) error {
	changed, err := one(x.rows(ctx, sql, args...))
	if err == nil && changed == nil {
		x.event(ctx, EventFenced, h.row, "", "")
		return errStale
	}
	h.changed = changed
	return wrap("changing an operation", err)
}

// maxDeferrals is how often an operation is left to a process of another release before it is
// parked. During a rollout, a process of the release before or after may be able to do more for it.
const maxDeferrals = 10

// giveUp parks an operation whose outcome this process cannot find out. If its attempts had a key
// or a Find that the tool no longer has, another release may find out: then the operation is
// postponed.
func (x *Tools) giveUp(ctx context.Context, h *held, why string) error {
	r, t := h.row, h.t
	more := t.keyless() && !r.keyless && !r.confirmed || t.unmarked() && !r.unmarked
	if r.state == StateRunning && more && r.tries <= maxDeferrals {
		return x.postpone(ctx, h, why+" by this release", false)
	}
	return x.park(ctx, h, why)
}

// unread returns an error if this release cannot read the operation's fingerprint or input.
func (h *held) unread() error {
	if _, err := digest(h.row.fingerprint); err != nil {
		return err
	}
	return h.t.checkInput(h.row.in())
}

// unreadable postpones an operation for which unread returns an error, and parks it in the end.
func (x *Tools) unreadable(ctx context.Context, h *held) error {
	why := "its fingerprint or input cannot be read"
	if unread, ok := errors.AsType[*dedup.InvalidError](h.unread()); ok { // its full text may quote values of the input
		why = "its input " + unread.Reason
	}
	switch {
	case h.row.state == StateParked: // no look-up was made, so tries stays
		return x.lookAgain(ctx, h, h.row.tries, x.uncountedPause(h.row))
	case h.row.tries <= maxDeferrals:
		return x.postpone(ctx, h, why, false)
	case h.row.verdict != nil: // keep the verdict's actor and reason
		why = value(h.row.note) + "; " + why
	}
	return x.park(ctx, h, why)
}
