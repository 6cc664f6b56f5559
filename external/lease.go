package external

import (
	"context"
	"time"
)

// lease is the time in which an attempt may send. By this machine's clock it ends a
// quarter earlier than by the database's: who holds it stops before anybody else begins.
type lease struct {
	x   *Tools
	at  *attempt
	end time.Time
}

func newLease(x *Tools, at *attempt) *lease {
	return &lease{x: x, at: at, end: at.began.Add(x.opts.Lease * 3 / 4)}
}

// over reports whether the lease has ended, by the monotonic and by the wall clock: while a
// machine is suspended, the former may stand still.
func (l *lease) over() bool {
	now := l.x.now()
	return !now.Before(l.end) || !now.Round(0).Before(l.end.Round(0))
}

// extend returns a context that ends with the lease, and extends the lease for as long as
// that context lives and nobody has taken over. end gives up both. Until it has returned, nobody
// else looks at the lease and at the attempt's row.
func (l *lease) extend(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx, cancel)
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}

func (l *lease) run(ctx context.Context, cancel context.CancelCauseFunc) {
	for extending := true; !l.over(); {
		wait := time.Until(l.end)
		if extending {
			wait = min(wait, l.x.opts.Lease/3)
		}
		if pause(ctx, wait) != nil {
			return
		}
		extending = extending && l.renew(ctx)
	}
	cancel(errLeaseOver)
}

// renew moves the lease's end. It reports whether it makes sense to go on.
func (l *lease) renew(ctx context.Context) bool {
	began := l.x.now()
	// A query that is cancelled costs its connection: this one ends with the lease.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), l.end)
	defer cancel()
	row, err := one(l.x.rows(ctx, l.x.sql.hold, append(mine(l.at.row), l.x.opts.Lease)...))
	if err != nil {
		return ctx.Err() == nil // not answered: perhaps the next is
	}
	if row == nil {
		return false
	}
	l.end = began.Add(l.x.opts.Lease * 3 / 4)
	row.now = l.at.row.now // what has settled is judged by when the operation was taken
	l.at.row = row
	return true
}
