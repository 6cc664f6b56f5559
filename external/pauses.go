package external

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/wire"
)

// keyHolds reports whether another attempt may rely on the provider's key, at the time when the row
// was read. Every attempt that may have had an effect must have sent the key. After ErrExists
// keyHolds is false: the provider may have forgotten the key since.
func (x *Tools) keyHolds(r *row, t *definition) bool {
	until := x.keyUntil(r, t)
	return t.KeyKept > 0 && !r.keyless && !r.confirmed && (until == nil || r.now.Before(*until))
}

// keyUntil returns the latest time at which an attempt may begin, so that it can no longer take
// effect when the provider forgets the key. It returns nil for no limit. The provider may count
// from the key's first use, even a failed one; so does keyUntil.
//
// In the model: KEY_HOLDS in row.pml.
func (x *Tools) keyUntil(r *row, t *definition) *time.Time {
	if t.KeyKept == Forever || r.sentAt == nil {
		return nil
	}
	until := r.sentAt.Add(t.KeyKept - x.keyMargin(t.Settles, t.Timeout))
	return &until
}

// keyMargin is how long before the end of KeyKept the last attempt with the key must begin.
func (x *Tools) keyMargin(settles, timeout time.Duration) time.Duration {
	return settles + x.window(timeout)
}

// window is how long after its beginning a request of an attempt may arrive at the provider.
func (x *Tools) window(timeout time.Duration) time.Duration {
	return max(2*x.opts.Lease, timeout+x.opts.Lease)
}

// retention returns a tool's own retention, with the Deduper's for fields that are zero.
func (x *Tools) retention(own dedup.Retention) dedup.Retention {
	of := x.d.Options().Retention
	return dedup.Retention{Result: cmp.Or(own.Result, of.Result), Tombstone: cmp.Or(own.Tombstone, of.Tombstone)}
}

// remembered is how long a record is kept, answer and tombstone together.
func (x *Tools) remembered(own dedup.Retention) time.Duration {
	of := x.retention(own)
	return of.Result + max(of.Tombstone, 0)
}

// backoff is the pause before the next act on a running operation. With the default lease it is
// half a second to a second at first, and at most five minutes.
func (x *Tools) backoff(r *row) time.Duration {
	return jitter(x.opts.Lease/30, 10*x.opts.Lease, r.tries)
}

// parkedPause is the pause after so many look-ups of a parked operation, or failures to record its
// outcome: with the default lease 1, 10 and 100 minutes and a day. After that it is nil.
func (x *Tools) parkedPause(tries int) *time.Duration {
	leases := [...]time.Duration{2, 20, 200, 2880}
	if tries >= len(leases) {
		return nil
	}
	pause := x.opts.Lease * leases[tries]
	return &pause
}

// uncountedPause is the pause after an act on a parked operation that does not count: Find failed,
// the database did not record the outcome, or this release cannot read the row. No number of such
// acts ends the tries, so the pause grows: it is the time since the operation was parked or its
// outcome became known, at least 2 leases and at most 20. After an outage, calls wait at most as
// long again for the answer.
func (x *Tools) uncountedPause(r *row) *time.Duration {
	pause := min(max(r.now.Sub(r.changedAt), 2*x.opts.Lease), 20*x.opts.Lease)
	return &pause
}

// untilRecheck is the pause between an answer and its recheck: until everything sent has settled.
// With a key alone, it is until no request can arrive any more.
//
// In the model: RECHECK in rules.pml.
func (x *Tools) untilRecheck(t *definition) time.Duration {
	if t.Settles == 0 && t.KeyKept > 0 {
		return x.window(t.Timeout)
	}
	return max(10*t.Settles, x.opts.Lease/6)
}

// jitter returns a random pause. Its upper bound is base, doubled for each earlier try, at most
// most. It is at least half of the bound.
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

// pause waits for d or until ctx ends.
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

// retryFor repeats do until it succeeds, fails for another reason than the database, ctx ends, or
// most has passed. It is for outcomes that only this process knows.
func (x *Tools) retryFor(ctx context.Context, most time.Duration, do func() error) error {
	began := time.Now()
	for n := 1; ; n++ {
		err := do()
		if err == nil || ctx.Err() != nil || !isTemporary(err) || time.Since(began) >= most {
			return err
		}
		if pause(ctx, jitter(x.opts.Lease/1000, x.opts.Lease/10, n)) != nil {
			return err
		}
	}
}

// isTemporary reports whether an error comes from the database or a twin and may not occur again.
func isTemporary(err error) bool {
	switch {
	case errors.As(err, new(*toolError)):
		return false
	case wire.IsReadOnlyTx(err): // writes are stopped, for example during a failover
		return true
	case errors.Is(err, dedup.ErrRefused), errors.Is(err, dedup.ErrInvalid), errors.Is(err, dedup.ErrBroken), errors.Is(err, errStale):
		return false
	}
	return dedup.IsRetryable(err) || dedup.IsTransient(err) || wire.IsConnLost(err) || wire.IsContextError(err) ||
		errors.Is(err, dedup.ErrSchema) || errors.Is(err, errTooLong)
}

// toolError is an error of Finish or Refused that the transaction did not cause. It may be about
// another connection, for example to a service, so it is not temporary.
type toolError struct{ err error }

func (e *toolError) Error() string { return e.err.Error() }
func (e *toolError) Unwrap() error { return e.err }

// inTool calls a function of a tool in tx. If the function returns after ctx has ended, the answer
// cannot be recorded any more, and that is the function's error.
func inTool(ctx context.Context, tx pgx.Tx, f func() error) error {
	err := f()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil || byTx(tx, err) {
		return err
	}
	return &toolError{err}
}

// byTx reports whether an error of a function in tx comes from tx: a statement of it failed, or its
// connection is closed. pgx closes a connection if a context ends during a statement.
func byTx(tx pgx.Tx, err error) bool {
	conn := guard.ConnOf(tx)
	return conn == nil || conn.IsClosed() || errors.Is(err, dedup.ErrRestartTx) ||
		conn.PgConn().TxStatus() == 'E' && wire.SQLState(err) != ""
}
