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

// refuse deals with a refusal of Perform. It counts for this attempt. Where earlier ones may be out,
// they are looked for, or have to settle, before it is the call's answer. Where the tool does
// not declare Settles, a look that finds nothing makes it the answer: a late success is possible
// then, and the audit reports it.
//
// In the model: the answer REFUSED in worker.pml, refuse in row.pml.
func (x *Tools) refuse(ctx context.Context, a *act, at *attempt, why error) {
	looked := false
	if at.earlier != nil && at.t.Find != nil {
		outs, err := x.find(ctx, a, at)
		if err != nil {
			a.err = x.postpone(ctx, at, note(err), false)
			return
		}
		if len(outs) > 0 {
			x.found(ctx, a, at, outs)
			return
		}
		looked = true
	}
	if at.t.Settles > 0 && !at.settled(at.t.Settles) {
		a.err = x.change(ctx, at, x.sql.settleLater, at.t.Settles, at.earlier)
		return
	}
	x.recordRefusal(ctx, a, at, why, looked)
}

// recordRefusal stores a refusal, if this act still holds the operation: an opinion, where
// a success is a fact. The record is written before the row, as in record, so that the two
// cannot deadlock. It is audited where it relies on a look, or on a person, who found nothing.
func (x *Tools) recordRefusal(ctx context.Context, a *act, at *attempt, why error, looked bool) {
	r := at.row
	var refused, before *dedup.RefusedError
	var done *row
	err := x.insist(ctx, x.opts.Lease/2, func() error {
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
			ctx, cancel := x.recordingTime(ctx) // not of COMMIT, whose outcome would be a guess
			defer cancel()
			if refused, before, err = x.refuseIn(ctx, tx, at, why); err != nil {
				return tooLong(ctx, err)
			}
			if before != nil {
				return errStale
			}
			done, err = x.endRefused(ctx, tx, at, refused, looked)
			return tooLong(ctx, err)
		})
	})
	switch {
	case err == nil:
		if done.twice != nil { // the ref of an effect that is refused all the same
			x.event(ctx, EventTwice, done, value(done.twice), "")
		}
		x.event(ctx, EventRecorded, r, "", note(why))
		a.answered, a.err = true, refused
	case before != nil: // it was recorded before, perhaps by a COMMIT whose answer was lost
		a.answered, a.err = true, before
	case errors.Is(err, errStale):
		x.event(ctx, EventFenced, r, "", note(why))
		a.err = err
	case ctx.Err() != nil:
		a.err = err
	default:
		parked := x.parkUnrecorded(ctx, at, "", verdict{verdictRefuse, note(why)}, err)
		if passes(err) && passes(parked) {
			x.recordRefusal(ctx, a, at, why, looked)
			return
		}
		a.err = errors.Join(err, parked)
	}
}

// refuseIn writes the refusal's record in a transaction, or returns one that was there before.
func (x *Tools) refuseIn(ctx context.Context, tx pgx.Tx, at *attempt, why error) (refused, before *dedup.RefusedError, err error) {
	call := at.row.call(at.t)
	call.MaxWait = x.opts.Lease
	_, err = dedup.DoTx(at.row.known(ctx), x.d, tx, call, func(context.Context, pgx.Tx) (json.RawMessage, error) { return nil, why })
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

// endRefused writes the rest of a refusal. The tool's part is an effect, as Finish is: calls inside it
// would wait for a connection while it holds one.
func (x *Tools) endRefused(ctx context.Context, tx pgx.Tx, at *attempt, why *dedup.RefusedError, looked bool) (*row, error) {
	r := at.row
	inner := guard.Enter(ctx, guard.Owner{}, tx)
	err := at.t.Refused(inner, inner.Tx(), r.in(), why)
	inner.Leave()
	if err != nil {
		return nil, byTool(tx, err)
	}
	done, err := one(collect(tx.Query(ctx, x.sql.refused, append(mine(r), x.untilAudit(at.t), x.remembered(at.t.Retention), looked)...)))
	if err == nil && done == nil {
		err = errStale
	}
	x.event(ctx, EventEnding, r, "", note(why))
	return done, err
}
