package external

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
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
	// exists is true when the provider says that it has an effect of this key.
	exists bool
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
	if err != nil {
		return Operation{}, err
	}
	if guard.Inside(ctx) {
		return Operation{}, errInside
	}
	t := x.tool(tool)
	if t == nil {
		return Operation{}, unregistered()
	}
	if err := x.findEngine(ctx, x.pool); err != nil {
		return Operation{}, failed("looking up", err)
	}
	began := time.Now()
	op, r, err := x.lookup(ctx, id)
	if err != nil || r == nil || !r.due() {
		return op, err
	}
	a, _, err := x.start(ctx, id, false, func(ctx context.Context, a *act) { x.advance(ctx, a, t, r, began) })
	if err != nil {
		return op, err
	}
	select {
	case <-a.over:
	case <-ctx.Done():
		return op, context.Cause(ctx)
	}
	op, _, err = x.lookup(ctx, id)
	if a.isDone() {
		err = errors.Join(err, unlessStale(a.err))
	}
	return op, err
}

var errInside = &dedup.InvalidError{What: "call", Field: "ctx", Reason: "is an effect's; inside an effect use Accept with its transaction"}

func unlessStale(err error) error {
	if errors.Is(err, errStale) || errors.Is(err, dedup.ErrRefused) {
		return nil
	}
	return err
}

// advance does what is due for r. docs/external.md has it as a table.
//
// In the model: "Due: look, send, or park" in worker.pml.
func (x *Tools) advance(ctx context.Context, a *act, t *definition, r *row, began time.Time) {
	at := &attempt{row: r, t: t, began: began, earlier: r.sentUntil}
	switch {
	case r.state == Done:
		a.err = x.audit(ctx, at)
	case r.verdict != nil && *r.verdict != verdictNever:
		if a.err = x.take(ctx, at, looking); a.err == nil {
			x.carryOut(ctx, a, at)
		}
	case t.takes(r.in()) != nil:
		if a.err = x.take(ctx, at, looking); a.err == nil {
			a.err = x.unreadable(ctx, at)
		}
	case r.state == Pending:
		if a.err = x.take(ctx, at, sending); a.err == nil {
			x.perform(ctx, a, at)
		}
	case t.find != nil:
		if a.err = x.take(ctx, at, looking); a.err == nil {
			x.look(ctx, a, at)
		}
	case r.state == Running && x.keyHolds(r, t):
		if a.err = x.take(ctx, at, purpose{sends: true, before: x.keyUntil(r, t)}); a.err == nil {
			x.event(ctx, dedup.ExternalResent, at.row, "", "")
			x.perform(ctx, a, at)
		}
	default:
		if a.err = x.take(ctx, at, looking); a.err == nil {
			a.err = x.park(ctx, at, "an attempt ended without an answer, and the provider cannot be asked")
		}
	}
}

// purpose is what an operation is taken for.
type purpose struct {
	sends bool
	// goesOn: it goes on from a look that found nothing, without a gap.
	goesOn bool
	// before is until when it may be taken; nil is at any time. It is compared when the row is
	// taken: what was read may be old by then.
	before *time.Time
}

var (
	sending = purpose{sends: true}
	looking = purpose{}
)

// take makes this process the one that acts for an operation, if nobody was faster.
//
// In the model: begin, where it sends, and take, where it does not, in row.pml.
func (x *Tools) take(ctx context.Context, at *attempt, p purpose) error {
	began := x.now()
	taken, err := one(x.rows(ctx, x.sql().take, append(mine(at.row), p.sends, x.opts.Lease, p.goesOn, p.before)...))
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
	x.event(ctx, dedup.ExternalFenced, at.row, "", "")
	_, err := one(x.rows(ctx, x.sql().orphaned, append(mine(at.row), x.remembered(at.t))...))
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
		x.event(ctx, dedup.ExternalFenced, at.row, "", "")
		return errStale
	}
	at.changed = changed
	return failed("changing an operation", err)
}

// keyHolds reports whether an attempt may be made because of the provider's key, by when the
// row was read.
func (x *Tools) keyHolds(r *row, t *definition) bool {
	until := x.keyUntil(r, t)
	return t.keyKept > 0 && (until == nil || r.now.Before(*until))
}

// keyUntil is until when an attempt has to begin, so that the provider still knows its key
// when the attempt can take effect no more; nil where that is always. The provider may count
// from the key's first use, whatever became of that: so does this.
//
// In the model: KEY_HOLDS in row.pml.
func (x *Tools) keyUntil(r *row, t *definition) *time.Time {
	if t.keyKept == Forever || r.sentAt == nil {
		return nil
	}
	until := r.sentAt.Add(t.keyKept - x.keyNeeds(t.settles, t.timeout))
	return &until
}

// keyNeeds is how long before a key is forgotten the last attempt with it has to begin.
func (x *Tools) keyNeeds(settles, timeout time.Duration) time.Duration {
	return settles + x.window(timeout)
}

// maxUnread is how often an input that cannot be read is left to another process before the operation
// is parked: while a release is rolled out there are such that can read it.
const maxUnread = 10

func (x *Tools) unreadable(ctx context.Context, at *attempt) error {
	why := "its input cannot be read"
	if unread, ok := errors.AsType[*dedup.InvalidError](at.t.takes(at.row.in())); ok { // the rest of its text may have values
		why = "its input " + unread.Reason
	}
	switch {
	case at.row.state == Parked: // nobody has looked
		return x.lookAgain(ctx, at, at.row.tries)
	case at.row.tries > maxUnread && at.row.verdict != nil: // who has said so is kept
		return x.park(ctx, at, value(at.row.note)+"; "+why)
	case at.row.tries > maxUnread:
		return x.park(ctx, at, why)
	}
	return x.postpone(ctx, at, why, false)
}

// remembered is how long a record of the tool is.
func (x *Tools) remembered(t *definition) time.Duration {
	r := t.retention.Or(x.d.Options().Retention)
	return r.Result + max(r.Tombstone, 0)
}

// backoff is the pause before the next act on a running operation: half a second or so at
// first with the default lease, and five minutes in the end.
func (x *Tools) backoff(r *row) time.Duration {
	return jitter(x.opts.Lease/30, 10*x.opts.Lease, r.tries)
}

// parkedPause is the pause before the next act on a parked operation: about 1, 10 and 100
// minutes with the default lease, and a day; nil after that.
func (x *Tools) parkedPause(tries int) *time.Duration {
	leases := [...]time.Duration{2, 20, 200, 2880}
	if tries >= len(leases) {
		return nil
	}
	pause := x.opts.Lease * leases[tries]
	return &pause
}

// untilAudit is how long after an answer the provider is looked at once more: when what was
// sent has settled, or with a key alone when no request of it can arrive any more.
//
// In the model: AUDIT in rules.pml.
func (x *Tools) untilAudit(t *definition) time.Duration {
	if t.settles == 0 && t.keyKept > 0 {
		return x.window(t.timeout)
	}
	return max(10*t.settles, x.opts.Lease/6)
}

// window is how long after its beginning an attempt with a key may have its request arrive.
func (x *Tools) window(timeout time.Duration) time.Duration {
	return max(2*x.opts.Lease, timeout+x.opts.Lease)
}

// jitter is a pause that is bounded by base, doubled for every earlier try, up to most. At
// least half of the bound is waited.
func jitter(base, most time.Duration, try int) time.Duration {
	bound := base
	for range min(max(try-1, 0), 40) {
		if bound *= 2; bound >= most {
			break
		}
	}
	bound = min(bound, most)
	return bound/2 + rand.N(bound/2+1)
}

// pause waits, within the context.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
