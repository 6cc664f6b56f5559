package external

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/wire"
)

// refuse handles a refusal by Perform, which is about this attempt only. If earlier attempts may
// still take effect, they are looked up or must settle before the refusal is the answer. If the
// tool does not declare Settles, a look-up that finds nothing is enough. A late success is possible
// then, and the recheck reports it.
//
// In the model: the answer REFUSED in worker.pml, refuse in row.pml.
func (x *Tools) refuse(ctx context.Context, a *act, h *held, why error) {
	looked := false
	if h.earlierUntil != nil && h.t.Find != nil {
		outs, err := x.find(ctx, a, h)
		if err != nil {
			a.err = x.postpone(ctx, h, note(err), false)
			return
		}
		if len(outs) > 0 {
			x.found(ctx, a, h, outs)
			return
		}
		looked = true
	}
	if h.t.Settles > 0 && !h.settled(h.t.Settles) {
		a.err = x.change(ctx, h, x.sql.settleLater, h.t.Settles, h.earlierUntil)
		return
	}
	x.recordRefusal(ctx, a, h, why, looked)
}

// recordRefusal stores a refusal if this act still holds the operation. It writes the record before
// the row, as record does, so that the two cannot deadlock. A refusal that relies on a look-up or
// an operator who found nothing is rechecked.
func (x *Tools) recordRefusal(ctx context.Context, a *act, h *held, why error, looked bool) {
	for x.tryRefusal(ctx, a, h, why, looked) {
	}
}

// tryRefusal retries for half a lease, and then parks the operation with the refusal. If the
// database allows neither, it returns true: only this process knows the refusal.
func (x *Tools) tryRefusal(ctx context.Context, a *act, h *held, why error, looked bool) (again bool) {
	r := h.row
	var refused, before *dedup.RefusedError
	var done *row
	err := x.retryFor(ctx, x.opts.Lease/2, func() error {
		x.event(ctx, EventRecording, r, "", note(why))
		conn, err := wire.Acquire(ctx, x.pool)
		if err != nil {
			return err
		}
		defer conn.Release()
		return wire.InTx(ctx, conn.Conn(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, x.d.Options().CommitTimeout, func(tx pgx.Tx) (err error) {
			if _, err := tx.Exec(ctx, x.sql.durable); err != nil {
				return err
			}
			ctx, cancel := x.recordingTime(ctx) // not for COMMIT: its outcome would be unknown
			defer cancel()
			if refused, before, err = x.refuseIn(ctx, tx, h, why); err != nil {
				return tooLong(ctx, err)
			}
			if before != nil {
				return errStale
			}
			done, err = x.endRefused(ctx, tx, h, refused, looked)
			return tooLong(ctx, err)
		})
	})
	switch {
	case err == nil:
		if done.twice != nil { // the row had the ref of an effect
			x.event(ctx, EventTwice, done, value(done.twice), "")
		}
		x.event(ctx, EventRecorded, r, "", note(why))
		a.answered, a.err = true, refused
	case before != nil: // already recorded, perhaps by this act's COMMIT whose reply was lost
		a.answered, a.err = true, before
	case errors.Is(err, errStale):
		x.event(ctx, EventFenced, r, "", note(why))
		a.err = err
	case ctx.Err() != nil:
		a.err = err
	default:
		text := value(h.row.verdictValue)
		if h.row.verdict == nil {
			text = x.encodeKept(why)
		}
		parked := x.parkUnrecorded(ctx, h, "", verdict{verdictRefuse, text}, err)
		a.err = errors.Join(err, parked)
		return isTemporary(parked)
	}
	return false
}

// refuseIn writes the refusal's record in tx. If a refusal is already recorded, it returns that as
// before.
func (x *Tools) refuseIn(ctx context.Context, tx pgx.Tx, h *held, why error) (refused, before *dedup.RefusedError, err error) {
	call := h.row.call(h.t)
	call.MaxWait = x.opts.Lease
	known, err := h.row.known(ctx)
	if err != nil {
		return nil, nil, err
	}
	_, err = dedup.DoTx(known, x.d, tx, call, func(context.Context, pgx.Tx) (json.RawMessage, error) { return nil, why })
	refused, ok := errors.AsType[*dedup.RefusedError](err)
	switch {
	case err == nil: // an earlier attempt's success is recorded
		return nil, nil, errStale
	case !ok:
		return nil, nil, err
	case refused.Replayed:
		return nil, refused, nil
	}
	return refused, nil, nil
}

// endRefused calls Refused and ends the row. Refused runs as an effect, as Finish does: a call
// inside it would wait for a second connection while it holds one.
func (x *Tools) endRefused(ctx context.Context, tx pgx.Tx, h *held, why *dedup.RefusedError, looked bool) (*row, error) {
	r := h.row
	inner := guard.Enter(ctx, guard.Owner{}, tx)
	err := inTool(ctx, tx, func() error { return h.t.Refused(inner, inner.Tx(), r.in(), why) })
	inner.Leave()
	if err != nil {
		return nil, err
	}
	done, err := one(collect(tx.Query(ctx, x.sql.refused, append(byFence(r), x.untilRecheck(h.t), x.remembered(h.t.Retention), looked)...)))
	if err == nil && done == nil {
		err = errStale
	}
	x.event(ctx, EventEnding, r, "", note(why))
	return done, err
}
