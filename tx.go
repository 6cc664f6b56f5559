package dedup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// state is what one attempt came to. docs/design.md has the table: what is certain in
// each, and what comes next.
type state int

const (
	committed  state = iota // effects and records of the verdict's calls
	found                   // a record is there
	busy                    // a twin is in flight; with err somebody else has the row
	held                    // rolled back; a twin without the lock was in the record's way
	retry                   // transient; certainly not committed
	conflicted              // a unique violation without a record; not committed
	unknown                 // the answer to COMMIT was lost
	refused                 // rolled back; err is to be recorded
	broken                  // the effect ended its transaction
	failed                  // err is the call's own; not committed
	undecided               // with err: rolled back, and explain finds out what it means; without: nothing has failed so far
	undone                  // effect and record were sent as one statement, which did not commit
	again                   // nothing is known and nothing is wrong; another attempt at once
)

// verdict is what one attempt came to.
type verdict struct {
	state state
	err   error
	// bad is the call that decided it, nil where it is nobody's.
	bad *call
	// calls are those whose effects were run.
	calls []*call
	// rec is bad's record, where it is found.
	rec table.Record

	// atRecord is true when writing the record raised err, raised when bad's statement did,
	// lost when the connection was closed by then.
	atRecord, raised, lost bool
	// blocked is how long bad's record waited for a lock before it gave up, 0 where it did
	// not. It may have met a twin, or a lock on the whole table.
	blocked time.Duration
	// readOnly is true when the server has refused to write, which is no standby: those are
	// met when the transaction is opened.
	readOnly bool
	// stale is true when bad's statement had been prepared by an earlier attempt.
	stale bool

	// unplaced is true when err is some call's own, and pgx does not say whose.
	unplaced bool

	// free is true when an identity was free and this attempt had it: whatever
	// an earlier attempt left in doubt has ended without a record. That is so for
	// doubts that end before started, which is now() in the transaction.
	free    bool
	started time.Time
	// until is when a doubt ends that this attempt left.
	until time.Time
	// outage is true when the attempt ended before its transaction was open, because of
	// the state that the server is in.
	outage bool
}

// attemptOn is attempt on a connection that is in no transaction. It may leave one open.
func (g *group) attemptOn(ctx context.Context, conn *pgx.Conn, calls []*call) verdict {
	t := &transaction{g: g, table: g.d.table(), on: wire.On(conn), conn: conn, calls: calls, width: pipelineWidth}
	if g.narrow {
		t.width = 1
	}
	v, ok := t.open(ctx)
	if !ok {
		return v
	}
	t.limit = t.recordLimit()
	v = t.run(ctx, t.table.Commit)
	if v.state != committed && v.state != unknown {
		v.free, v.lost = t.proves && t.table.FreeIsProof(), conn.IsClosed()
		wire.DropUnusable(ctx, conn, v.err)
	}
	return v
}

// pipelineWidth is how many statements share a pipeline. It bounds what is kept in memory
// for one.
const pipelineWidth = 500

// transaction is one attempt's way through a transaction: open, effects, records. All of
// it is one transaction, or lies behind one savepoint of a caller's.
type transaction struct {
	g     *group
	table *table.Table
	on    *wire.Conn
	conn  *pgx.Conn
	// tx is what an effect gets, guarded.
	tx pgx.Tx
	// calls are those to run.
	calls []*call
	// locked is true when the calls have their locks, or claims: all but those beyond
	// table.MaxLocks, and with ClaimFirst several together have none.
	locked bool
	// proves is true when one of them has: an earlier attempt, which had it too, has ended.
	proves bool
	// started is now() in the transaction, which names it.
	started time.Time
	// texts are what to record, in the order of calls; room is for one.
	texts []string
	room  [1]string
	// width is how many statements share a pipeline.
	width int
	// limit is how long a record waits for a twin's that is not committed yet, and whose
	// call does not hold the lock; 0 is as long as the session allows.
	limit time.Duration
}

// open begins and looks, in one round trip. It is not ok where nothing is to be run.
func (t *transaction) open(ctx context.Context) (v verdict, ok bool) {
	if len(t.calls) > 1 {
		return t.openAll(ctx)
	}
	c := t.calls[0]
	open, err := t.table.Open(ctx, t.on, &c.Entry)
	if wire.SQLState(err) == wire.CodeUniqueViolation { // of a claim
		return verdict{state: conflicted, bad: c, err: err}, false
	}
	if err != nil {
		return t.g.unopened(ctx, t.conn, t.calls, err), false
	}
	t.g.opened(open.Started)
	t.tx, t.started, t.locked, t.proves = open.Tx, open.Started, open.Locked, true
	return t.opened(&open)
}

// opened says whether to go on after one call's identity was looked at.
func (t *transaction) opened(open *table.Opening) (v verdict, ok bool) {
	c := t.calls[0]
	switch {
	case open.Found:
		return verdict{state: found, bad: c, rec: open.Record}, false
	case open.Busy:
		return verdict{state: busy, bad: c, err: open.Held}, false
	case open.Hidden:
		return verdict{state: conflicted, bad: c}, false
	case !t.g.doubt.provable(c.Forget):
		return verdict{state: failed, bad: c, err: errForgotten}, false
	}
	return verdict{}, true
}

// openAll is open for several calls. Those that have a record are settled.
func (t *transaction) openAll(ctx context.Context) (v verdict, ok bool) {
	g, asked := t.g, t.calls
	open, err := t.table.OpenAll(ctx, t.on, entries(asked), func(n int, rec table.Record) { g.find(asked[n], rec) })
	if err != nil {
		return g.unopened(ctx, t.conn, asked, err), false
	}
	g.opened(open.Started)
	if bad := g.together.misjudged(open.Started); bad != nil {
		return verdict{state: failed, bad: bad}, false
	}
	t.calls, t.started = unsettled(asked), open.Started
	t.locked, t.proves = open.Locked == len(asked), len(unsettled(asked[:open.Locked])) > 0
	switch {
	case open.Taken >= 0 && !asked[open.Taken].settled():
		return verdict{state: busy, bad: asked[open.Taken]}, false
	case open.Taken >= 0, len(t.calls) == 0: // a record that is found wins over a lock that is not
		return verdict{state: found}, false
	case slices.ContainsFunc(t.calls, func(c *call) bool { return !g.doubt.provable(c.Forget) }):
		return verdict{state: failed, err: errForgotten}, false
	}
	if len(open.Forgotten) > 0 {
		var old []*table.Entry
		for _, n := range open.Forgotten {
			old = append(old, &asked[n].Entry)
		}
		if err := t.table.ForgetAll(ctx, t.on, old); err != nil {
			return g.unopened(ctx, t.conn, asked, err), false
		}
	}
	return verdict{}, true
}

// run runs the effects, writes the records, and ends the transaction, or the savepoint,
// with end.
func (t *transaction) run(ctx context.Context, end wire.Query) verdict {
	t.texts = t.room[:0]
	v := t.perform(ctx)
	switch {
	case v.err != nil:
	case ctx.Err() != nil: // nothing of the end was sent: it is definite
		v = verdict{state: failed, err: fmt.Errorf("dedup: before commit: %w", contextError(ctx))}
	default:
		v = t.record(ctx, end)
	}
	v.calls, v.started = t.calls, t.started
	v.readOnly = wire.IsReadOnlyTx(v.err) && t.conn.PgConn().TxStatus() == 'E'
	if v.bad == nil && len(t.calls) == 1 {
		v.bad = t.calls[0]
	}
	return v
}

// perform runs the effects.
func (t *transaction) perform(ctx context.Context) verdict {
	if c := t.calls[0]; c.stmt == nil {
		text, err := t.runEffect(ctx, c)
		t.texts = append(t.texts, text)
		return verdict{state: undecided, bad: c, err: err}
	}
	for part := range slices.Chunk(t.calls, t.width) {
		if v := t.runStatements(ctx, part); v.err != nil {
			return v
		}
	}
	return verdict{state: undecided, err: wire.CheckSession(t.conn.PgConn())}
}

// runEffect runs an effect on a guarded transaction and checks in what state it left
// it. After a panic nobody reads its error any more, so the call notes whether it had
// ended its transaction.
func (t *transaction) runEffect(ctx context.Context, c *call) (string, error) {
	inner := guard.Enter(ctx, c.owner(), t.tx)
	defer inner.Leave()
	returned := false
	defer func() {
		if !returned {
			c.endedTx = inner.EndedTx(ctx, t.started)
		}
	}()
	if f := t.g.leads; f != nil {
		f.SetBusy(true)
		defer f.SetBusy(false)
	}
	text, err := c.effect(inner, inner.Tx())
	returned = true
	return text, inner.Verdict(ctx, t.started, err)
}

// runStatements runs the statements of some calls, in one round trip.
func (t *transaction) runStatements(ctx context.Context, part []*call) verdict {
	nobodys := func(err error) verdict { return verdict{state: undecided, err: err} }
	queries := make([]wire.Query, len(part))
	known := make([]bool, len(part))
	for i, c := range part {
		queries[i], known[i] = c.stmt.effect, t.on.Prepared(c.stmt.effect)
	}
	raisedBy := func(i int, err error) verdict {
		if mayBeStale(err) {
			t.on.Stale(queries[i])
		}
		return verdict{state: undecided, bad: part[i], err: err, raised: true, stale: known[i]}
	}
	if err := t.on.Prepare(ctx, wire.Distinct(queries)...); err != nil {
		bad := slices.IndexFunc(part, func(c *call) bool { return !t.on.Knows(c.stmt.effect) })
		if bad < 0 || !wire.IsRaised(err) {
			return nobodys(err)
		}
		return verdict{state: undecided, bad: part[bad], err: err, raised: true}
	}
	p := t.on.CallersPipeline()
	for i, c := range part {
		if err := p.QueueArgs(c.stmt.effect, c.stmt.args); err != nil {
			return raisedBy(i, err)
		}
	}
	if f := t.g.leads; f != nil {
		f.SetBusy(true)
		defer f.SetBusy(false)
	}
	results := p.Send(ctx)
	for i, c := range part {
		room := &results.Room
		err := results.Scan(&room.Int, &room.Maybe)
		if err = cmp.Or(err, oneRow(room.Int)); err != nil {
			if err = results.Close(err); wire.IsUnsent(err) && len(part) > 1 { // by pgx, which does not say whose it is
				t.g.narrow = true
				return verdict{state: again, err: err}
			}
			return raisedBy(i, err)
		}
		if err := checkStorable([]byte(*room.Maybe), t.g.d.opts.MaxResultBytes); err != nil {
			return verdict{state: undecided, bad: c, err: results.Close(err)}
		}
		t.texts = append(t.texts, *room.Maybe)
	}
	return nobodys(results.Close(nil))
}

// oneRow is the error of a statement that returned so many rows.
func oneRow(rows int64) error {
	switch rows {
	case 0:
		return pgx.ErrNoRows
	case 1:
		return nil
	default:
		return pgx.ErrTooManyRows
	}
}

// opened notes that a transaction could be opened.
func (g *group) opened(started time.Time) {
	g.renewed = 0
	g.d.clock.seen(started)
}

// unopened is the verdict on an attempt that failed before its transaction was open.
func (g *group) unopened(ctx context.Context, conn *pgx.Conn, calls []*call, err error) verdict {
	wire.DropUnusable(ctx, conn, err)
	if wire.SQLState(err) == wire.CodePreparedMissing && g.renewed < g.d.pool.Stat().MaxConns() {
		g.renewed++ // somebody has discarded what was prepared
		return verdict{state: again, err: err}
	}
	return g.unstarted(ctx, calls, hintPooler(err))
}

// unstarted is the verdict on an error before anything was written.
func (g *group) unstarted(ctx context.Context, calls []*call, err error) verdict {
	err = g.d.explained(err)
	v := verdict{state: failed, err: err}
	if len(calls) == 1 && g.together == nil { // else it is nobody's
		v.bad = calls[0]
	}
	switch {
	case wire.IsReadOnlyTx(err): // behind a statement that a standby refuses
		v.err = readOnlyTx(err)
	case mayRetry(ctx, err):
		v.state, v.outage = retry, isOutage(err)
	case errors.Is(err, ErrSchema):
	case ctx.Err() != nil:
		v.err = fmt.Errorf("dedup: opening the transaction: %w: %w", contextError(ctx), err)
	default:
		v.err = fmt.Errorf("dedup: opening the transaction: %w", err)
	}
	return v
}

// mayRetry reports whether an error of the library's own statements, before
// anything was written, is worth a fresh attempt: a transient one, or a
// connection that broke without the server saying why.
func mayRetry(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, ErrInFlight) {
		return false
	}
	return wire.IsTransient(err) || wire.IsConnLost(err)
}

// isOutage reports whether an error that mayRetry is about comes from the state that
// the server is in, and not from other transactions.
func isOutage(err error) bool {
	switch wire.SQLState(err) {
	case wire.CodeSerialization, wire.CodeDeadlock, wire.CodeLockNotAvailable:
		return false
	}
	return true
}

// mayBeStale reports whether types that have changed may be behind a statement's error:
// not where it says how many rows there were, that a constraint does not hold, or what a
// function raised.
func mayBeStale(err error) bool {
	if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, pgx.ErrTooManyRows) || wire.IsTransient(err) {
		return false
	}
	state := wire.SQLState(err)
	class := state[:min(2, len(state))]
	return class != "23" && class != "P0"
}
