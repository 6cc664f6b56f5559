package external

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/wire"
)

// Accept writes the intent into the caller's transaction, in one round trip, and returns
// where the operation stands: a transactional outbox. What it is to do is done after the
// caller has committed, by [Tools.Recover], or by a job that [Options.Enqueue] puts beside
// it. Begin is run in tx.
//
// It works behind a savepoint. An operation that somebody else has claimed and not committed
// yet is a [dedup.ErrInFlight], and tx stays usable. [dedup.ErrRestartTx] means that the whole
// transaction has to be run again. A key that was used with other input is a
// [dedup.ErrKeyReused], and a parked operation a *[ParkedError].
func (h *Handle[In, Out]) Accept(ctx context.Context, tx pgx.Tx, call dedup.Call, in In) (Operation, error) {
	o, err := h.ask(call, in)
	if err != nil {
		return Operation{}, err
	}
	if tx == nil {
		return Operation{}, &dedup.InvalidError{What: "call", Field: "tx", Reason: "must not be nil"}
	}
	seen, err := h.x.tryAccept(ctx, tx, o)
	if err != nil {
		return Operation{}, h.x.declined(ctx, tx, o, err)
	}
	r := seen.row
	switch {
	case seen.rec != nil && seen.rec.Fingerprint != o.fingerprint:
		return Operation{}, o.reused(seen.rec.ArgDigests, seen.rec.CreatedAt)
	case r == nil && seen.rec != nil: // its row is swept
		return Operation{Scope: o.Scope, Tool: o.Tool, Key: o.Key, State: Done, ProviderKey: providerKey(o.Scope, o.Tool, o.Key), Now: seen.rec.SeenAt}, nil
	case r == nil:
		return Operation{}, o.answer(dedup.ErrRestartTx, errors.New("a twin was accepted meanwhile"))
	case [32]byte(r.fingerprint) != o.fingerprint:
		return Operation{}, o.reused(r.argDigests, r.createdAt)
	case r.state == Parked:
		return Operation{}, &ParkedError{r.operation()}
	case !seen.mine:
		return r.operation(), nil
	}
	op := r.operation()
	if h.t.begin != nil {
		if err := h.t.begin(ctx, tx, []byte(o.input)); err != nil {
			return op, err
		}
	}
	if h.x.opts.Enqueue != nil {
		return op, h.x.opts.Enqueue(ctx, tx, op)
	}
	return op, nil
}

// reused is the answer to a key that came with other arguments before.
func (o *ask) reused(stored []byte, firstAt time.Time) error {
	changed, complete := canon.ChangedArgs(stored, o.argDigests)
	return &dedup.Error{
		Answer: dedup.ErrKeyReused, Scope: o.Scope, Tool: o.Tool, KeyHash: dedup.KeyHash(o.Key),
		FirstAt: firstAt, Changed: changed, Complete: complete,
	}
}

func (x *Tools) tryAccept(ctx context.Context, tx pgx.Tx, o *ask) (seen sight, err error) {
	b := &pgx.Batch{}
	b.Queue("SAVEPOINT tool_effect")
	b.Queue(x.sql.limit)
	b.Queue(x.sql.accept, o.Scope, o.Tool, o.Key, o.fingerprint[:], o.argDigests, o.input)
	b.Queue(x.sql.unlimit)
	b.Queue("RELEASE SAVEPOINT tool_effect")
	results := tx.SendBatch(ctx, b)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range 2 {
		if _, err = results.Exec(); err != nil {
			return seen, err
		}
	}
	return seen, seen.scan(results.QueryRow())
}

// declined says what a failure has left of the caller's transaction.
func (x *Tools) declined(ctx context.Context, tx pgx.Tx, o *ask, err error) error {
	switch wire.SQLState(err) {
	case pgLockNotAvailable:
		if _, undo := tx.Exec(ctx, "ROLLBACK TO SAVEPOINT tool_effect"); undo != nil {
			return o.answer(dedup.ErrRestartTx, errors.Join(err, undo))
		}
		return o.answer(dedup.ErrInFlight, err)
	case "40001", "40P01":
		return o.answer(dedup.ErrRestartTx, err)
	}
	return failed("accepting", err)
}
