package external

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/wire"
)

// errOtherLife: the operation has been forgotten, and the row is that of a later use of
// its key, or gone.
var errOtherLife = errors.New("dedup: the operation is forgotten")

// record stores a success, whoever holds the operation by now: it is a fact, and who comes
// back with it knows more than anybody. The record's primary key decides between two.
func (x *Tools) record(ctx context.Context, a *act, at *attempt, out json.RawMessage) {
	r, ref := at.row, at.t.ref(out)
	a.err = x.insist(ctx, func() error {
		x.event(ctx, dedup.ExternalRecording, r, ref, "")
		result, err := dedup.Do(ctx, x.d, r.call(at.t), func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
			done, err := one(collect(tx.Query(ctx, x.sql.done, r.Scope, r.Tool, r.Key, r.createdAt, ref, x.untilAudit(at.t), x.remembered(at.t))))
			if err != nil {
				return nil, err
			}
			if done == nil {
				return nil, errOtherLife
			}
			if at.t.finish != nil {
				if err := at.t.finish(ctx, tx, r.in(), out); err != nil {
					return nil, dedup.NotFinal(err)
				}
			}
			x.event(ctx, dedup.ExternalEnding, r, ref, "")
			return out, nil
		})
		a.result = result
		return err
	})
	switch {
	case a.err == nil && (!a.result.Replayed || a.result.Recovered):
		x.event(ctx, dedup.ExternalRecorded, r, ref, "")
		a.answered = true
	case a.err == nil: // an earlier attempt's success is recorded
		a.answered = true
		if at.t.ref(a.result.Value) != ref {
			a.err = x.twice(ctx, at, ref)
		}
	case errors.Is(a.err, dedup.ErrRefused):
		a.answered = true
		a.err = errors.Join(a.err, x.twice(ctx, at, ref))
	case errors.Is(a.err, errOtherLife):
		x.event(ctx, dedup.ExternalFenced, r, ref, "it happened, and its operation is forgotten")
	case ctx.Err() != nil:
	default:
		a.err = errors.Join(a.err, x.parkUnrecorded(ctx, at, ref, verdict{verdictHappened, string(out)}, a.err))
	}
}

// refuse deals with a refusal of Perform. It counts for this attempt. Where earlier ones may be out,
// they are looked for, or have to settle, before it is the call's answer.
func (x *Tools) refuse(ctx context.Context, a *act, at *attempt, why error) {
	var audit *time.Duration
	if at.earlier != nil && at.t.find != nil {
		outs, err := x.find(ctx, at)
		if err != nil {
			a.err = x.postpone(ctx, at, note(err), false)
			return
		}
		if len(outs) > 0 {
			x.found(ctx, a, at, outs)
			return
		}
		pause := x.untilAudit(at.t)
		audit = &pause
	}
	if at.t.settles > 0 && !at.settled(at.t.settles) {
		a.err = x.change(ctx, at, x.sql.settleLater, at.t.settles, at.earlier)
		return
	}
	x.recordRefusal(ctx, a, at, why, audit)
}

// recordRefusal stores a refusal, if this act still holds the operation: an opinion, where
// a success is a fact. The record is written before the row, as in record, so that the two
// cannot deadlock.
func (x *Tools) recordRefusal(ctx context.Context, a *act, at *attempt, why error, audit *time.Duration) {
	r := at.row
	var refused *dedup.RefusedError
	err := x.insist(ctx, func() error {
		x.event(ctx, dedup.ExternalRecording, r, "", note(why))
		return pgx.BeginTxFunc(ctx, x.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
			if _, err := tx.Exec(ctx, x.sql.durable); err != nil {
				return err
			}
			refused, err = x.refuseIn(ctx, tx, at, why, audit)
			return err
		})
	})
	switch {
	case err == nil:
		x.event(ctx, dedup.ExternalRecorded, r, "", note(why))
		a.answered, a.err = true, refused
	case errors.Is(err, dedup.ErrRefused): // it was recorded before, perhaps by a COMMIT whose answer was lost
		a.answered, a.err = true, err
	case errors.Is(err, errStale):
		x.event(ctx, dedup.ExternalFenced, r, "", note(why))
		a.err = err
	case ctx.Err() != nil:
		a.err = err
	default:
		a.err = errors.Join(err, x.parkUnrecorded(ctx, at, "", verdict{verdictRefuse, note(why)}, err))
	}
}

// refuseIn writes refusal and row in a transaction. A refusal that is recorded already is
// the error.
func (x *Tools) refuseIn(ctx context.Context, tx pgx.Tx, at *attempt, why error, audit *time.Duration) (*dedup.RefusedError, error) {
	r := at.row
	call := r.call(at.t)
	call.MaxWait = x.opts.Lease
	_, err := dedup.DoTx(ctx, x.d, tx, call, func(context.Context, pgx.Tx) (json.RawMessage, error) { return nil, why })
	refused, ok := errors.AsType[*dedup.RefusedError](err)
	switch {
	case err == nil: // an earlier attempt's success is recorded
		return nil, errStale
	case !ok || refused.Replayed:
		return nil, err
	}
	if at.t.refused != nil {
		if err := at.t.refused(ctx, tx, r.in(), refused); err != nil {
			return nil, err
		}
	}
	changed, err := one(collect(tx.Query(ctx, x.sql.refused, append(mine(r), audit, x.remembered(at.t))...)))
	if err == nil && changed == nil {
		err = errStale
	}
	x.event(ctx, dedup.ExternalEnding, r, "", note(why))
	return refused, err
}

// insist repeats what needs the database until it is done, fails for another reason than
// the database, or ctx ends: the answer is known only here.
func (x *Tools) insist(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if err == nil || ctx.Err() != nil || !passes(err) {
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
	case errors.Is(err, dedup.ErrRefused), errors.Is(err, dedup.ErrInvalid), errors.Is(err, dedup.ErrBroken), errors.Is(err, errStale):
		return false
	}
	return dedup.IsRetryable(err) || dedup.IsTransient(err) || wire.IsConnLost(err) || errors.Is(err, dedup.ErrSchema) || wire.IsContextError(err)
}
