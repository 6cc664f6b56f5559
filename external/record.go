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
// back with it knows more than anybody. The record's primary key decides between two. Of
// more than one effect the first is the answer, and the others are reported with it. What a
// person has said is recorded only by who holds the operation: it may be overruled.
//
// In the model: succeed in row.pml.
func (x *Tools) record(ctx context.Context, a *act, at *attempt, outs ...json.RawMessage) {
	r, ref, wrote := at.row, at.t.ref(outs[0]), false
	for {
		done := x.tryRecord(ctx, a, at, ref, outs, &wrote)
		recorded := !a.result.CreatedAt.IsZero() // else an error is not a record's, but one of Finish
		switch {
		case a.err == nil && !a.result.Replayed:
			a.answered = true
			if done.twice != nil && value(done.twice) != value(r.twice) {
				x.event(ctx, dedup.ExternalTwice, done, value(done.twice), "")
			}
			x.event(ctx, dedup.ExternalRecorded, r, ref, "")
		case a.err == nil: // an earlier attempt's success is recorded, or it was this one's and an answer was lost
			a.answered = true
			if wrote {
				x.event(ctx, dedup.ExternalRecorded, r, ref, "")
			}
			x.beside(ctx, a, at, outs, wrote)
		case recorded && (errors.Is(a.err, dedup.ErrRefused) || errors.Is(a.err, dedup.ErrExpired)):
			a.answered = true
			x.beside(ctx, a, at, outs, wrote)
		case errors.Is(a.err, errOtherLife):
			x.event(ctx, dedup.ExternalFenced, r, ref, "it happened, and its operation is forgotten")
		case errors.Is(a.err, errStale): // what a person has said is overruled, or carried out
			x.event(ctx, dedup.ExternalFenced, r, ref, "")
		case ctx.Err() != nil:
		default:
			err := x.parkUnrecorded(ctx, at, ref, verdict{verdictHappened, string(outs[0])}, a.err)
			stale := errors.Is(err, errStale)
			if stale { // others need not wait for what is tried on
				x.leave(a)
			}
			if passes(a.err) && (stale || passes(err)) {
				continue
			}
			a.err = errors.Join(a.err, err)
		}
		return
	}
}

// tryRecord tries until others would take over. It returns the row that it wrote last, and
// sets wrote where it came to that.
func (x *Tools) tryRecord(ctx context.Context, a *act, at *attempt, ref string, outs []json.RawMessage, wrote *bool) (done *row) {
	r := at.row
	a.err = x.insist(ctx, x.opts.Lease/2, func() error {
		x.event(ctx, dedup.ExternalRecording, r, ref, "")
		result, err := dedup.Do(ctx, x.d, r.call(at.t), func(ctx context.Context, tx pgx.Tx) (_ json.RawMessage, err error) {
			done, err = one(collect(tx.Query(ctx, x.sql().done, append(life(r), ref, x.untilAudit(at.t), x.remembered(at.t), at.told)...)))
			if err != nil {
				return nil, err
			}
			if done == nil && at.told != nil {
				return nil, errStale
			}
			if done == nil {
				return nil, errOtherLife
			}
			for _, out := range outs[1:] {
				marked, err := one(collect(tx.Query(ctx, x.sql().twice, append(life(r), named(at.t.ref(out)))...)))
				if err != nil {
					return nil, err
				}
				if marked != nil {
					done = marked
				}
			}
			if at.t.finish != nil {
				if err := at.t.finish(ctx, tx, r.in(), outs[0]); err != nil {
					return nil, dedup.NotFinal(err)
				}
			}
			*wrote = true
			x.event(ctx, dedup.ExternalEnding, r, ref, "")
			return outs[0], nil
		})
		a.result = result
		return err
	})
	return done
}

// beside reports effects beside an answer that is recorded already. One that has no ref is
// the recorded one only if this act has written that.
func (x *Tools) beside(ctx context.Context, a *act, at *attempt, outs []json.RawMessage, wrote bool) {
	for _, out := range outs {
		if ref := at.t.ref(out); ref != "" && a.err == nil && ref == at.t.ref(a.result.Value) || ref == "" && wrote {
			continue
		}
		a.err = errors.Join(a.err, x.twice(ctx, at, at.t.ref(out)))
	}
}

// refuse deals with a refusal of Perform. It counts for this attempt. Where earlier ones may be out,
// they are looked for, or have to settle, before it is the call's answer. Where the tool does
// not declare Settles, a look that finds nothing makes it the answer: a late success is possible
// then, and the audit reports it.
//
// In the model: the answer REFUSED in worker.pml, refuse in row.pml.
func (x *Tools) refuse(ctx context.Context, a *act, at *attempt, why error) {
	looked := false
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
		looked = true
	}
	if at.t.settles > 0 && !at.settled(at.t.settles) {
		a.err = x.change(ctx, at, x.sql().settleLater, at.t.settles, at.earlier)
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
		x.event(ctx, dedup.ExternalRecording, r, "", note(why))
		return pgx.BeginTxFunc(ctx, x.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
			if _, err := tx.Exec(ctx, x.sql().durable); err != nil {
				return err
			}
			if refused, before, err = x.refuseIn(ctx, tx, at, why); err != nil {
				return err
			}
			if before != nil {
				return errStale
			}
			done, err = x.endRefused(ctx, tx, at, refused, looked)
			return err
		})
	})
	switch {
	case err == nil:
		if done.twice != nil { // the ref of an effect that is refused all the same
			x.event(ctx, dedup.ExternalTwice, done, value(done.twice), "")
		}
		x.event(ctx, dedup.ExternalRecorded, r, "", note(why))
		a.answered, a.err = true, refused
	case before != nil: // it was recorded before, perhaps by a COMMIT whose answer was lost
		a.answered, a.err = true, before
	case errors.Is(err, errStale):
		x.event(ctx, dedup.ExternalFenced, r, "", note(why))
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
	_, err = dedup.DoTx(ctx, x.d, tx, call, func(context.Context, pgx.Tx) (json.RawMessage, error) { return nil, why })
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

// endRefused writes the rest of a refusal.
func (x *Tools) endRefused(ctx context.Context, tx pgx.Tx, at *attempt, why *dedup.RefusedError, looked bool) (*row, error) {
	r := at.row
	if at.t.refused != nil {
		if err := at.t.refused(ctx, tx, r.in(), why); err != nil {
			return nil, err
		}
	}
	done, err := one(collect(tx.Query(ctx, x.sql().refused, append(mine(r), x.untilAudit(at.t), x.remembered(at.t), looked)...)))
	if err == nil && done == nil {
		err = errStale
	}
	x.event(ctx, dedup.ExternalEnding, r, "", note(why))
	return done, err
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
	return dedup.IsRetryable(err) || dedup.IsTransient(err) || wire.IsConnLost(err) || errors.Is(err, dedup.ErrSchema) || wire.IsContextError(err)
}
