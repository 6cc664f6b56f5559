package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// errForgotten means that the operation is forgotten: its row is gone, or belongs to a later use of
// the key.
var errForgotten = errors.New("dedup: the operation is forgotten")

// record stores a success, even if another act holds the operation by then: it happened, so the
// lease no longer matters. If two acts record, the record's primary key decides. Of several effects
// the first is the answer, and the others are reported with it. An operator's verdict is recorded
// only if its fence is still current, because it may be overruled.
//
// In the model: succeed in row.pml.
func (x *Tools) record(ctx context.Context, a *act, h *held, outs ...json.RawMessage) {
	r, ref, wrote := h.row, h.t.Ref(outs[0]), false
	for {
		done := x.tryRecord(ctx, a, h, ref, outs, &wrote)
		recorded := !a.result.CreatedAt.IsZero() // otherwise a.err is from Finish, not from a record
		switch {
		case a.err == nil && !a.result.Replayed:
			a.answered = true
			if done.twice != nil && value(done.twice) != value(r.twice) {
				x.event(ctx, EventTwice, done, value(done.twice), "")
			}
			x.event(ctx, EventRecorded, r, ref, "")
		case a.err == nil: // there was a record: an earlier attempt's, or this one's after a lost reply
			a.answered = true
			if wrote {
				x.event(ctx, EventRecorded, r, ref, "")
			}
			x.reportOthers(ctx, a, h, outs, wrote)
		case recorded && (errors.Is(a.err, dedup.ErrRefused) || errors.Is(a.err, dedup.ErrExpired)):
			a.answered = true
			x.reportOthers(ctx, a, h, outs, wrote)
		case errors.Is(a.err, errForgotten):
			x.event(ctx, EventFenced, r, ref, "the effect happened after its operation was forgotten")
		case errors.Is(a.err, errStale): // the verdict is overruled or already carried out
			x.event(ctx, EventFenced, r, ref, "")
		case ctx.Err() != nil:
		default:
			err := x.parkUnrecorded(ctx, h, ref, verdict{verdictHappened, string(outs[0])}, a.err)
			if isTemporary(err) { // only this process knows the outcome
				continue
			}
			a.err = errors.Join(a.err, err)
			for _, out := range outs[1:] {
				a.err = errors.Join(a.err, x.markTwice(ctx, h, h.t.Ref(out)))
			}
		}
		return
	}
}

// tryRecord retries for half a lease, after which others may act. It returns the row as last
// written and sets wrote if Finish succeeded.
func (x *Tools) tryRecord(ctx context.Context, a *act, h *held, ref string, outs []json.RawMessage, wrote *bool) (done *row) {
	r := h.row
	a.err = x.retryFor(ctx, x.opts.Lease/2, func() error {
		x.event(ctx, EventRecording, r, ref, "")
		ctx, cancel := x.recordingTime(ctx)
		defer cancel()
		known, err := r.known(ctx)
		if err != nil {
			return err
		}
		result, err := dedup.Do(known, x.d, r.call(h.t), func(ctx context.Context, tx pgx.Tx) (_ json.RawMessage, err error) {
			done, err = one(collect(tx.Query(ctx, x.sql.done, append(byCreation(r), ref, x.untilRecheck(h.t), x.remembered(h.t.Retention), h.verdictFence)...)))
			if err != nil {
				return nil, err
			}
			if done == nil && h.verdictFence != nil {
				return nil, errStale
			}
			if done == nil {
				return nil, errForgotten
			}
			for _, out := range outs[1:] {
				marked, err := one(collect(tx.Query(ctx, x.sql.twice, append(byCreation(r), refOrNone(h.t.Ref(out)))...)))
				if err != nil {
					return nil, err
				}
				if marked != nil {
					done = marked
				}
			}
			if err := inTool(ctx, tx, func() error { return h.t.Finish(ctx, tx, r.in(), outs[0]) }); err != nil {
				return nil, dedup.NotFinal(err)
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

// recordingTime bounds a transaction that records an answer. It may wait for a row of the
// application while it holds a connection that others need.
func (x *Tools) recordingTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, x.opts.Lease, errTooLong)
}

var errTooLong = errors.New("dedup: Finish or Refused took longer than Options.Lease")

// tooLong adds errTooLong to the error of a transaction that recordingTime ended.
func tooLong(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errTooLong) && !errors.Is(err, errTooLong) {
		return fmt.Errorf("%w: %w", errTooLong, err)
	}
	return err
}

// reportOthers reports effects that are not the recorded answer. An effect without a ref counts as
// the answer only if this act wrote the record.
func (x *Tools) reportOthers(ctx context.Context, a *act, h *held, outs []json.RawMessage, wrote bool) {
	for _, out := range outs {
		if ref := h.t.Ref(out); ref != "" && a.err == nil && ref == h.t.Ref(a.result.Value) || ref == "" && wrote {
			continue
		}
		a.err = errors.Join(a.err, x.markTwice(ctx, h, h.t.Ref(out)))
	}
}
