package dedup

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Deduper runs write tools once. It is safe for concurrent use and starts no
// goroutines; make one per pool and keep it.
type Deduper struct {
	pool    *pgxpool.Pool
	opts    Options
	sql     *statements
	order   order
	flights flights
	trace   tracers
	texts   statementTexts
	// foresight is for statements.
	foresight foresight
	// whole tells that the options let effect and record be one statement, plain
	// that the server can: see writesWhole.
	whole   bool
	plain   atomic.Bool
	trusted atomic.Bool // see trustArbiter
	// home is the pool's database. trustedElsewhere has others that callers'
	// transactions are in, and whose table was looked at.
	home             string
	trustedElsewhere sync.Map
}

// New returns a Deduper that keeps its records in the tool_dedup table of
// pool's database. It sends nothing; call migrations.Check at start-up to find
// out whether the table is there and sound. A Deduper's first call looks for
// itself whether the table can decide races at all, which is its one extra round
// trip. A nil opts means the defaults. The error is an *OptionsError.
func New(pool *pgxpool.Pool, opts *Options) (*Deduper, error) {
	if pool == nil {
		return nil, &OptionsError{Option: "pool", Reason: "must not be nil"}
	}
	resolved, err := opts.resolve()
	if err != nil {
		return nil, err
	}
	trace, err := newTracers(resolved.Tracer)
	if err != nil {
		return nil, err
	}
	sql := newStatements(&resolved)
	return &Deduper{
		foresight: foresight{slow: slowStatement},

		pool: pool, home: databaseOf(pool.Config().ConnConfig), opts: resolved, sql: sql, order: newOrder(&resolved, sql), trace: trace,
		texts: statementTexts{table: sql.table, async: resolved.AsyncCommit, limit: resolved.MaxResultBytes},
		whole: !resolved.SeparateStatements && resolved.Order == LockFirst && resolved.Isolation == pgx.ReadCommitted,
	}, nil
}

// Pool returns the pool that d was made with.
func (d *Deduper) Pool() *pgxpool.Pool { return d.pool }

// Options returns the options in use, with the defaults filled in.
func (d *Deduper) Options() Options { return d.opts }

// Effect is what a tool does: its writes on the transaction that it is handed.
//
// It may be run more than once for one call; all its runs but one are rolled
// back. So everything that it does must go through tx, and it must not keep tx,
// or anything got from it, after it has returned. It ends the transaction by
// returning: nil commits, an error rolls back and is returned to the caller.
type Effect[R any] func(ctx context.Context, tx pgx.Tx) (R, error)

// Do runs effect once for call's identity, in a transaction that it opens and
// ends, and answers every call of that identity, first, later and concurrent,
// with the one recorded result.
//
// A twin in flight is waited for without holding a connection, for at most
// MaxWait and the context's life. Transient faults and COMMITs whose answer was
// lost are retried in fresh transactions within Options.Retry. Cancelling ctx
// stops waiting and retrying and cancels the effect's statements; a COMMIT that
// has been sent is finished within Options.CommitTimeout all the same.
//
// A panic of the effect is raised again after the rollback. The errors are
// listed in the package documentation.
//
// An effect that calls Do must give it the context that it was handed: the answer is
// [ErrNested] then. With another context nobody can tell that the call is its own
// twin, and it waits for itself for as long as that context and MaxWait allow.
func Do[R any](ctx context.Context, d *Deduper, call Call, effect Effect[R]) (Result[R], error) {
	c, err := d.admit(ctx, call, effect == nil)
	if err != nil {
		return Result[R]{}, err
	}
	var value R
	c.work = recordedWork(d, effect, &value)
	s, err := c.do(ctx)
	return answer(ctx, d, c.req, s, value, err)
}

// DoTx is Do inside the caller's transaction: effect and record are committed
// or rolled back with whatever else is in tx, and several calls can share one
// transaction. What it answers is only true once the caller has committed.
//
// It works behind a savepoint, so that an effect that fails leaves tx as it was
// before: the transaction stays usable. It makes one attempt. A twin in flight
// is waited for inside Postgres, which finds deadlocks, for at most MaxWait or
// the session's lock_timeout, whichever is shorter, and as long again for whoever
// holds a record that may be forgotten; then the answer is ErrInFlight and tx stays
// healthy. A negative MaxWait is 5 ms here, lest somebody who only looks is taken
// for a twin. [ErrRestartTx] means that the whole transaction must be rolled back
// and run again. Use READ COMMITTED, and the same order of keys in every
// transaction.
//
// A refusal ([ErrRefused]) is an error and an answer: its record is in tx, and
// is only kept if the caller commits on it. Rolled back, the next call runs
// again.
//
// Do not call Do for the same identity before the transaction has
// ended: it would wait for itself, and nobody could tell.
func DoTx[R any](ctx context.Context, d *Deduper, tx pgx.Tx, call Call, effect Effect[R]) (Result[R], error) {
	req := &request{}
	if err := d.admitTo(ctx, call, effect == nil, req); err != nil {
		return Result[R]{}, err
	}
	if err := checkTx(tx); err != nil {
		return Result[R]{}, err
	}
	if d.reentered(ctx, req.identity) {
		return Result[R]{}, ErrReentrant
	}
	var value R
	s, err := d.doTx(ctx, tx, req, recordedWork(d, effect, &value))
	return answer(ctx, d, req, s, value, err)
}

// admit checks what Do and DoStatement are called with. The call that it returns
// lacks its work.
func (d *Deduper) admit(ctx context.Context, call Call, noEffect bool) (*doCall, error) {
	c := &doCall{d: d, out: outcomeDone, began: time.Now()}
	if err := d.admitTo(ctx, call, noEffect, &c.own); err != nil {
		return nil, err
	}
	if insideEffect(ctx) {
		return nil, ErrNested
	}
	c.req = &c.own
	c.patience.max = c.req.maxWait
	return c, nil
}

// admitTo checks what every way to make a call is called with, and fills in req.
func (d *Deduper) admitTo(ctx context.Context, call Call, noEffect bool, req *request) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	if noEffect {
		return &InvalidCallError{Field: "effect", Reason: "must not be nil"}
	}
	return d.check(call, req)
}

// usable checks what every function is called with.
func (d *Deduper) usable(ctx context.Context) error {
	switch {
	case ctx == nil:
		return &InvalidCallError{Field: "ctx", Reason: "must not be nil"}
	case d == nil || d.pool == nil:
		return &InvalidCallError{Field: "d", Reason: "must come from New"}
	}
	return nil
}

// recordedWork makes of an effect the work of an attempt: it runs and its
// result is turned into the text to record. The text is read back at once: that
// proves, before COMMIT, that it can be replayed, and gives the first caller
// what all others will get.
func recordedWork[R any](d *Deduper, effect Effect[R], value *R) work {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		got, err := effect(ctx, tx)
		if err != nil {
			return "", err
		}
		text, err := encodeResult(got, d.opts.MaxResultBytes)
		if err != nil {
			return "", err
		}
		err = decodeResult(text, value)
		return string(text), err
	}
}

// answer turns what became of a call into what its caller gets.
func answer[R any](ctx context.Context, d *Deduper, req *request, s settled, value R, err error) (Result[R], error) {
	result := Result[R]{Waited: s.waited, Attempts: s.attempts, Recovered: s.recovered}
	if err != nil {
		d.traceFailure(ctx, req, s, err)
		return result, err
	}
	result.CreatedAt, result.ExpiresAt = s.rec.createdAt, s.rec.expiresAt
	if s.executed {
		d.traceExecuted(ctx, req, s)
		if err := s.refusal(); err != nil {
			return result, err
		}
		result.Value = value
		return result, nil
	}

	result.Replayed = true
	if err := s.rec.judge(req); err != nil {
		var refused *RefusedError
		if errors.As(err, &refused) {
			refused.Recovered = s.recovered
		}
		d.traceJudged(ctx, req, s, err)
		return result, err
	}
	result.Value, err = decodeStored[R](s.rec.result)
	d.traceReplayed(ctx, req, s)
	return result, err
}
