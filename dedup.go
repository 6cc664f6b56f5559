package dedup

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/flight"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Deduper runs write tools once. It is safe for concurrent use and starts no
// goroutines; make one per pool and keep it.
type Deduper struct {
	pool    *pgxpool.Pool
	opts    Options
	table   *table.Table
	flights flight.Group[table.Identity, shared]
	trace   tracers
	texts   statementTexts
	clock   serverClock
	// combines is true when the options let effect and record be one statement, plain
	// when the server can: see group.combines.
	combines bool
	plain    atomic.Bool
	examined atomic.Bool // see checkTable
	// home is the pool's database. examinedElsewhere has others that callers'
	// transactions are in, and whose table was examined.
	home              string
	examinedElsewhere sync.Map
}

// New returns a Deduper that keeps its records in the tool_dedup table of
// pool's database. It sends nothing; call migrations.Check at start-up to find
// out whether the table is there and sound. A Deduper's first call looks for
// itself whether the table can decide races at all, which is its one extra round
// trip. A nil opts means the defaults. The error is an [ErrInvalid].
func New(pool *pgxpool.Pool, opts *Options) (*Deduper, error) {
	if pool == nil {
		return nil, invalidOption("pool", "must not be nil")
	}
	resolved, err := opts.resolve()
	if err != nil {
		return nil, err
	}
	trace, err := newTracers(resolved.Tracer)
	if err != nil {
		return nil, err
	}
	tbl := table.New(table.Options{
		Schema: resolved.Schema, ClaimFirst: resolved.Order == ClaimFirst, Isolation: resolved.Isolation,
		IdleTimeout: resolved.IdleTimeout, AsyncCommit: resolved.AsyncCommit, MaxResultBytes: resolved.MaxResultBytes,
	})
	return &Deduper{
		pool: pool, home: wire.HomeOf(pool.Config().ConnConfig), opts: resolved, table: tbl, trace: trace,
		texts: statementTexts{table: tbl}, clock: serverClock{made: time.Now()},
		combines: !resolved.SeparateStatements && resolved.Order == LockFirst && resolved.Isolation == pgx.ReadCommitted,
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
// [ErrInvalid] then. With another context nobody can see that the call is its own
// twin, and it waits for itself for as long as that context and MaxWait allow.
func Do[R any](ctx context.Context, d *Deduper, call Call, effect Effect[R]) (result Result[R], err error) {
	ctx, span := d.startCall(ctx, "Do", &call)
	defer span.abandon()
	s, err := d.admit(ctx, "Do", call, effect == nil)
	if err == nil {
		var value R
		s.call.effect = recordedEffect(d, effect, &value)
		err = s.do(ctx)
		result, err = answer(&s.call, value, err)
	}
	return result, s.end(span, &call, err)
}

// DoTx is Do inside the caller's transaction: effect and record are committed
// or rolled back with whatever else is in tx, and several calls can share one
// transaction. What it answers is only true once the caller has committed.
//
// It works behind a savepoint, so that an effect that fails leaves tx as it was
// before: the transaction stays usable. It makes one attempt. A twin in flight
// is waited for inside Postgres, which finds deadlocks, for at most MaxWait or
// the session's lock_timeout, whichever is shorter; then the answer is ErrInFlight and
// tx stays healthy. Whoever holds a record that may be forgotten is waited for as long
// again; then the answer is [ErrRestartTx], and ErrInFlight with ClaimFirst. A negative MaxWait is 5 ms here, so that somebody who only looks is not
// taken for a twin. [ErrRestartTx] means that the whole transaction must be rolled back
// and run again. Use READ COMMITTED, and the same order of keys in every
// transaction.
//
// A refusal ([ErrRefused]) is an error and an answer: its record is in tx, and
// is only kept if the caller commits on it. Rolled back, the next call runs
// again.
//
// Do not call Do for the same identity before the transaction has
// ended: it would wait for itself, and nobody could see that.
func DoTx[R any](ctx context.Context, d *Deduper, tx pgx.Tx, call Call, effect Effect[R]) (result Result[R], err error) {
	ctx, span := d.startCall(ctx, "DoTx", &call)
	defer span.abandon()
	s := &solo{}
	if err = d.check(ctx, "DoTx", call, effect == nil, &s.call); err == nil {
		err = checkTx(tx)
	}
	if err == nil && guard.InsideOwn(ctx, s.call.owner()) {
		err = errReentrant
	}
	if err == nil {
		var value R
		s.call.effect = recordedEffect(d, effect, &value)
		err = s.doTx(ctx, tx)
		result, err = answer(&s.call, value, err)
	}
	return result, s.end(span, &call, err)
}

// admit checks what Do and DoStatement are called with. The call that it returns
// lacks its effect.
func (d *Deduper) admit(ctx context.Context, function string, call Call, noEffect bool) (*solo, error) {
	s := &solo{}
	if err := d.check(ctx, function, call, noEffect, &s.call); err != nil {
		return nil, err
	}
	if guard.Inside(ctx) {
		return nil, errNested
	}
	return s, nil
}

var (
	errNested    = &InvalidError{What: "call", Field: "ctx", Reason: "is an effect's; inside an effect use DoTx with its transaction"}
	errReentrant = &InvalidError{What: "call", Field: "ctx", Reason: "is that of this very call's effect; a call cannot make itself"}
)

// usable checks what every function is called with.
func (d *Deduper) usable(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("ctx", "must not be nil")
	case d == nil || d.pool == nil:
		return invalid("d", "must come from New")
	}
	return nil
}

// recordedEffect makes of an effect what an attempt runs: it turns the result into the
// text to record. The text is read back at once: that proves, before COMMIT, that it can
// be replayed, and gives the first caller what all others will get.
func recordedEffect[R any](d *Deduper, effect Effect[R], value *R) effectFunc {
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

// end ends the call's span and returns the answer as its caller gets it. s is nil where the
// call could not be taken.
func (s *solo) end(span *span, asked *Call, err error) error {
	err = errorOf(asked, err)
	if s == nil {
		span.end(nil, err)
	} else {
		span.end(&s.call, err)
	}
	return err
}

// answer turns what became of a call into what its caller gets.
func answer[R any](c *call, value R, err error) (Result[R], error) {
	result := Result[R]{Waited: c.waiter.waited, Attempts: c.attempts, Recovered: c.recovered}
	if err != nil {
		return result, err
	}
	result.CreatedAt, result.ExpiresAt = c.rec.CreatedAt, c.rec.ExpiresAt
	if c.executed {
		if err := c.refusal(); err != nil {
			return result, err
		}
		result.Value = value
		return result, nil
	}

	result.Replayed = true
	if err := c.judge(&c.rec); err != nil {
		if refused, ok := err.(*RefusedError); ok {
			refused.Recovered = c.recovered
		}
		return result, err
	}
	result.Value, err = decodeStored[R](c.rec.Result)
	return result, err
}

// checkTable examines the table of the pool's database once in the life of a Deduper,
// before the first effect, in one round trip. It returns an ErrSchema where the table
// cannot keep the promise; that is not remembered, so that it can be repaired.
func (d *Deduper) checkTable(ctx context.Context, conn *pgx.Conn) error {
	if d.examined.Load() {
		return nil
	}
	x, err := d.examine(ctx, conn)
	if err != nil {
		return err
	}
	d.clock.seen(x.Now)
	d.plain.Store(x.Plain)
	d.examined.Store(true)
	return nil
}

// checkTableOf is checkTable for a caller's transaction, which may be in another database
// than the pool's connections: then that is examined once.
func (d *Deduper) checkTableOf(ctx context.Context, tx pgx.Tx) error {
	conn := guard.ConnOf(tx)
	home := wire.Home(conn)
	if home == d.home {
		return d.checkTable(ctx, conn)
	}
	if _, known := d.examinedElsewhere.Load(home); known {
		return nil
	}
	_, err := d.examine(ctx, conn)
	if err == nil {
		d.examinedElsewhere.Store(home, nil)
	}
	return err
}

// reexamine has the next call examine the table again.
func (d *Deduper) reexamine() {
	d.examined.Store(false)
	d.examinedElsewhere.Clear()
}

func (d *Deduper) examine(ctx context.Context, conn *pgx.Conn) (examiner.Examination, error) {
	x, err := examiner.Examine(ctx, conn, d.opts.Schema, d.opts.Order == ClaimFirst)
	if err == nil && x.Problems != nil {
		err = schemaError(x.Problems...)
	}
	return x, err
}

// schemaError is the error of a table that cannot decide races.
func schemaError(problems ...string) error {
	return &Error{Answer: ErrSchema, Err: fmt.Errorf("%s; see migrations.Check", strings.Join(problems, "; "))}
}
