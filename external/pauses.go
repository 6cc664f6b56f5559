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

// keyHolds reports whether an attempt may be made because of the provider's key, by when the
// row was read. The key must be that of every attempt that may have had an effect. A provider that has said
// that it knows the key may have forgotten it since.
func (x *Tools) keyHolds(r *row, t *definition) bool {
	until := x.keyUntil(r, t)
	return t.KeyKept > 0 && !r.keyless && !r.confirmed && (until == nil || r.now.Before(*until))
}

// keyUntil is until when an attempt has to begin, so that the provider still knows its key
// when the attempt can take effect no more; nil where that is always. The provider may count
// from the key's first use, even one that failed, and so does this.
//
// In the model: KEY_HOLDS in row.pml.
func (x *Tools) keyUntil(r *row, t *definition) *time.Time {
	if t.KeyKept == Forever || r.sentAt == nil {
		return nil
	}
	until := r.sentAt.Add(t.KeyKept - x.keyNeeds(t.Settles, t.Timeout))
	return &until
}

// keyNeeds is how long before a key is forgotten the last attempt with it has to begin.
func (x *Tools) keyNeeds(settles, timeout time.Duration) time.Duration {
	return settles + x.window(timeout)
}

// window is how long after its beginning an attempt with a key may have its request arrive.
func (x *Tools) window(timeout time.Duration) time.Duration {
	return max(2*x.opts.Lease, timeout+x.opts.Lease)
}

// remembered is how long a record of a tool with this retention is.
func (x *Tools) remembered(own dedup.Retention) time.Duration {
	of := x.d.Options().Retention
	return cmp.Or(own.Result, of.Result) + max(cmp.Or(own.Tombstone, of.Tombstone), 0)
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
	if t.Settles == 0 && t.KeyKept > 0 {
		return x.window(t.Timeout)
	}
	return max(10*t.Settles, x.opts.Lease/6)
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

// insist repeats what needs the database until it is done, fails for another reason than
// the database, ctx ends, or it has been tried for too long: the answer is known only here.
func (x *Tools) insist(ctx context.Context, most time.Duration, do func() error) error {
	began := time.Now()
	for n := 1; ; n++ {
		err := do()
		if err == nil || ctx.Err() != nil || !passes(err) || time.Since(began) >= most {
			return err
		}
		if pause(ctx, jitter(x.opts.Lease/1000, x.opts.Lease/10, n)) != nil {
			return err
		}
	}
}

// passes reports whether an error is one of the database's or of twins, and may not come
// again.
func passes(err error) bool {
	switch {
	case wire.IsReadOnlyTx(err): // somebody has stopped all writes for a while
		return true
	case errors.Is(err, dedup.ErrRefused), errors.Is(err, dedup.ErrInvalid), errors.Is(err, dedup.ErrBroken), errors.Is(err, errStale):
		return false
	}
	if dedup.IsRetryable(err) || dedup.IsTransient(err) {
		return true
	}
	if errors.As(err, new(*toolError)) {
		return false
	}
	return wire.IsConnLost(err) || errors.Is(err, dedup.ErrSchema) || wire.IsContextError(err)
}

// toolError is an error of a tool's Finish or Refused whose transaction's connection lives. It may be that of another
// connection, to a service say, and it is not repeated because of that one's end.
type toolError struct{ err error }

func (e *toolError) Error() string { return e.err.Error() }
func (e *toolError) Unwrap() error { return e.err }

// byTool is an error of a tool's function in tx.
func byTool(tx pgx.Tx, err error) error {
	if conn := guard.ConnOf(tx); conn == nil || conn.IsClosed() {
		return err
	}
	return &toolError{err}
}
