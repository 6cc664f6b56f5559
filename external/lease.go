package external

import (
	"context"
	"time"
)

// lease is the time in which an attempt may send. Here it ends a quarter earlier than by the
// database's clock, so that this process stops before another one begins.
type lease struct {
	x   *Tools
	h   *held
	end time.Time
}

func newLease(x *Tools, h *held) *lease {
	return &lease{x: x, h: h, end: h.began.Add(x.opts.Lease * 3 / 4)}
}

// over reports whether the lease has ended, by the monotonic or the wall clock. The monotonic clock
// may stop while a machine is suspended.
func (l *lease) over() bool {
	now := l.x.now()
	return !now.Before(l.end) || !now.Round(0).Before(l.end.Round(0))
}

// extend returns a context that ends with the lease, and extends the lease until end is called or
// another process takes over. Until end has returned, do not read the lease or the row of h.
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

// renew extends the lease once. It reports whether to try again later.
func (l *lease) renew(ctx context.Context) bool {
	began := l.x.now()
	// Cancelling a query closes its connection, so this one runs until the lease ends.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), l.end)
	defer cancel()
	row, err := one(l.x.rows(ctx, l.x.sql.hold, append(byFence(l.h.row), l.x.opts.Lease)...))
	if err != nil {
		return ctx.Err() == nil // the next try may succeed
	}
	if row == nil {
		return false
	}
	l.end = began.Add(l.x.opts.Lease * 3 / 4)
	row.now = l.h.row.now // settled compares the time at which the operation was taken
	l.h.row = row
	return true
}
