package external

import (
	"context"
	"errors"
	"time"

	"github.com/tooldedup/dedup"
)

// attempt is an act on an operation, by the fence that it was taken with.
type attempt struct {
	row *row
	t   *definition
	// began is this machine's clock before the statement was sent that took the operation.
	began time.Time
	// earlier is until when earlier attempts may have sent something, nil where this is the
	// operation's only one.
	earlier *time.Time
	// told is the fence of what a person has said, nil where the act knows it by itself.
	told *int64
	// changed is the row as this attempt has written it last.
	changed *row
}

// errStale: somebody else has acted, and this act has changed nothing.
var errStale = errors.New("dedup: a later act has taken over")

// Advance does what is due for one operation, once, and returns where it stands after
// that. It is what a job calls that [Options.Enqueue] has put beside an intent; calling it
// too often does no harm. The tool must be registered. The error is an [dedup.ErrInvalid], the
// database's, or the context's, which stops the waiting and not the attempt.
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

// advance does what is due for r. docs/external.md has it as a table.
//
// In the model: "Due: look, send, or park" in worker.pml.
func (x *Tools) advance(ctx context.Context, a *act, t *definition, r *row, began time.Time) {
	at := &attempt{row: r, t: t, began: began, earlier: r.sentUntil}
	if r.state == Done {
		a.err = x.audit(ctx, a, at)
		return
	}
	p, then := purpose{}, func() {
		a.err = x.giveUp(ctx, at, "an attempt ended without an answer, and the provider cannot be asked")
	}
	switch {
	case r.verdict != nil && *r.verdict != verdictNever:
		then = func() { x.carryOut(ctx, a, at) }
	case t.takes(r.in()) != nil:
		then = func() { a.err = x.unreadable(ctx, at) }
	case r.state == Pending:
		p, then = purpose{sends: true}, func() { x.perform(ctx, a, at) }
	case t.Find != nil:
		then = func() { x.look(ctx, a, at) }
	case r.state == Running && x.keyHolds(r, t):
		p, then = purpose{sends: true, before: x.keyUntil(r, t)}, func() {
			x.event(ctx, EventResent, at.row, "", "")
			x.perform(ctx, a, at)
		}
	}
	if a.err = x.take(ctx, at, p); a.err == nil {
		then()
	}
}

// purpose is what an operation is taken for: a look, or an attempt.
type purpose struct {
	sends bool
	// goesOn: it goes on from a look that found nothing, without a gap.
	goesOn bool
	// before is until when it may be taken; nil is at any time. It is compared when the row is
	// taken: what was read may be old by then.
	before *time.Time
}

// take makes this process the one that acts for an operation, if nobody was faster.
//
// In the model: begin, where it sends, and take, where it does not, in row.pml.
func (x *Tools) take(ctx context.Context, at *attempt, p purpose) error {
	began := x.now()
	taken, err := one(x.rows(ctx, x.sql.take, append(mine(at.row), p.sends, x.opts.Lease, p.goesOn, p.before, at.t.keyless(), at.t.unmarked())...))
	if err != nil {
		return failed("taking an operation", err)
	}
	if taken == nil {
		return x.stale(ctx, at)
	}
	at.row, at.began = taken, began
	if !p.sends { // an earlier attempt may have ended since the row was read
		at.earlier = taken.sentUntil
	}
	return nil
}

// stale is the end of an act whose operation is not as it was read. Where a record has
// been written past it, it is done.
func (x *Tools) stale(ctx context.Context, at *attempt) error {
	x.event(ctx, EventFenced, at.row, "", "")
	orphaned, err := one(x.rows(ctx, x.sql.orphaned, append(mine(at.row), x.remembered(at.t.Retention))...))
	if orphaned != nil && orphaned.twice != nil {
		x.event(ctx, EventTwice, orphaned, value(orphaned.twice), "")
	}
	return errors.Join(errStale, failed("ending an operation", err))
}

// mine are the parameters of a statement that changes a row as it was read.
func mine(r *row) []any { return []any{r.Scope, r.Tool, r.Key, r.fence} }

// change changes the row of an act, unless somebody else has acted. What the act knows is
// known only here, so that it is tried until the database is there.
func (x *Tools) change(ctx context.Context, at *attempt, sql string, args ...any) error {
	return x.insist(ctx, forever, func() error { return x.tryChange(ctx, at, sql, args...) })
}

func (x *Tools) tryChange(ctx context.Context, at *attempt, sql string, args ...any) error {
	changed, err := one(x.rows(ctx, sql, append(mine(at.row), args...)...))
	if err == nil && changed == nil {
		x.event(ctx, EventFenced, at.row, "", "")
		return errStale
	}
	at.changed = changed
	return failed("changing an operation", err)
}

// maxLeft is how often an operation is left to another process that can do more for it, before it is parked:
// while a release is rolled out there are such, of the release before or after.
const maxLeft = 10

// giveUp parks an operation that this process cannot find out about. Where its attempts had a key, or a tool with Find,
// and the tool here has none, another release can do more.
func (x *Tools) giveUp(ctx context.Context, at *attempt, why string) error {
	r, t := at.row, at.t
	more := t.keyless() && !r.keyless && !r.confirmed || t.unmarked() && !r.unmarked
	if r.state == Running && more && r.tries <= maxLeft {
		return x.postpone(ctx, at, why+" by this release", false)
	}
	return x.park(ctx, at, why)
}

func (x *Tools) unreadable(ctx context.Context, at *attempt) error {
	why := "its input cannot be read"
	if unread, ok := errors.AsType[*dedup.InvalidError](at.t.takes(at.row.in())); ok { // the rest of its text may have values
		why = "its input " + unread.Reason
	}
	switch {
	case at.row.state == Parked: // nobody has looked
		return x.lookAgain(ctx, at, at.row.tries)
	case at.row.tries <= maxLeft:
		return x.postpone(ctx, at, why, false)
	case at.row.verdict != nil: // who has said so is kept
		why = value(at.row.note) + "; " + why
	}
	return x.park(ctx, at, why)
}
