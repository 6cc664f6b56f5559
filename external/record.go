package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
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
	r, ref, wrote := at.row, at.t.Ref(outs[0]), false
	for {
		done := x.tryRecord(ctx, a, at, ref, outs, &wrote)
		recorded := !a.result.CreatedAt.IsZero() // else an error is not a record's, but one of Finish
		switch {
		case a.err == nil && !a.result.Replayed:
			a.answered = true
			if done.twice != nil && value(done.twice) != value(r.twice) {
				x.event(ctx, EventTwice, done, value(done.twice), "")
			}
			x.event(ctx, EventRecorded, r, ref, "")
		case a.err == nil: // an earlier attempt's success is recorded, or it was this one's and an answer was lost
			a.answered = true
			if wrote {
				x.event(ctx, EventRecorded, r, ref, "")
			}
			x.beside(ctx, a, at, outs, wrote)
		case recorded && (errors.Is(a.err, dedup.ErrRefused) || errors.Is(a.err, dedup.ErrExpired)):
			a.answered = true
			x.beside(ctx, a, at, outs, wrote)
		case errors.Is(a.err, errOtherLife):
			x.event(ctx, EventFenced, r, ref, "it happened, and its operation is forgotten")
		case errors.Is(a.err, errStale): // what a person has said is overruled, or carried out
			x.event(ctx, EventFenced, r, ref, "")
		case ctx.Err() != nil:
		default:
			err := x.parkUnrecorded(ctx, at, ref, verdict{verdictHappened, string(outs[0])}, a.err)
			stale := errors.Is(err, errStale)
			if stale { // others need not wait for what is tried on
				a.leave()
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
		x.event(ctx, EventRecording, r, ref, "")
		ctx, cancel := x.recordingTime(ctx)
		defer cancel()
		result, err := dedup.Do(r.known(ctx), x.d, r.call(at.t), func(ctx context.Context, tx pgx.Tx) (_ json.RawMessage, err error) {
			done, err = one(collect(tx.Query(ctx, x.sql.done, append(life(r), ref, x.untilAudit(at.t), x.remembered(at.t.Retention), at.told)...)))
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
				marked, err := one(collect(tx.Query(ctx, x.sql.twice, append(life(r), named(at.t.Ref(out)))...)))
				if err != nil {
					return nil, err
				}
				if marked != nil {
					done = marked
				}
			}
			if err := at.t.Finish(ctx, tx, r.in(), outs[0]); err != nil {
				return nil, dedup.NotFinal(byTool(tx, err))
			}
			*wrote = true
			x.event(ctx, EventEnding, r, ref, "")
			return outs[0], nil
		})
		a.result = result
		return tooLong(ctx, err)
	})
	return done
}

// recordingTime bounds a transaction that records an answer: one that waits for a row of the application's keeps a
// connection, and others need it.
func (x *Tools) recordingTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, x.opts.Lease, errTooLong)
}

var errTooLong = errors.New("dedup: Finish or Refused has taken longer than Options.Lease")

// tooLong adds that to an error of a transaction that was given up.
func tooLong(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errTooLong) {
		return fmt.Errorf("%w: %w", errTooLong, err)
	}
	return err
}

// beside reports effects beside an answer that is recorded already. One that has no ref is
// the recorded one only if this act has written that.
func (x *Tools) beside(ctx context.Context, a *act, at *attempt, outs []json.RawMessage, wrote bool) {
	for _, out := range outs {
		if ref := at.t.Ref(out); ref != "" && a.err == nil && ref == at.t.Ref(a.result.Value) || ref == "" && wrote {
			continue
		}
		a.err = errors.Join(a.err, x.twice(ctx, at, at.t.Ref(out)))
	}
}
