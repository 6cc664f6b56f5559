package dedup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// sendsWhole tells whether this attempt sends effect and record as one statement.
// Only a call's first does, and only to find out whether all goes well. Whatever
// else there is to know, what an error means above all, is found out by another
// attempt the way that Do goes.
func (c *doCall) sendsWhole(conn *pgx.Conn) bool {
	return c.sql != nil && !c.sentWhole && c.outlivesStrays() && c.d.writesWhole(conn)
}

// strayTime is more than a statement may be on its way to the server after its
// connection broke: kernels stop sending it again after a quarter of an hour.
const strayTime = time.Hour

// outlivesStrays tells whether the record is remembered for longer than that. Else
// a statement that is its own transaction could arrive when the record of a later
// attempt is forgotten, and run once more. A COMMIT cannot: its transaction holds
// the identity until it comes.
func (c *doCall) outlivesStrays() bool { return c.req.retention.forget() >= strayTime }

// writesWhole tells whether effect and record can be one statement on conn.
func (d *Deduper) writesWhole(conn *pgx.Conn) bool {
	return d.whole && d.plain.Load() &&
		// Else a backslash may hide where a quote ends, and so a parameter.
		conn.PgConn().ParameterStatus("standard_conforming_strings") != "off"
}

// attemptWhole makes one statement and one transaction of effect and record, in
// one round trip.
func (c *doCall) attemptWhole(ctx context.Context, conn *pgx.Conn) attempt {
	if ctx.Err() != nil {
		return attempt{state: attemptFailed, err: fmt.Errorf("dedup: before the statement: %w", contextError(ctx))}
	}
	c.sentWhole = true
	on := lineOf(conn)
	p := on.callersPipeline()
	whole := c.sql.withRecord
	if c.d.foresight.looks(time.Duration(c.sql.took.Load()), c.req) {
		whole = c.sql.withLook
	}
	start := time.Now()
	err := on.prepare(ctx, whole)
	if err == nil {
		err = p.queueWhole(whole, c.sql, c.req)
	}
	if err != nil { // nothing was sent
		dropSpoiled(ctx, conn, err)
		return attempt{state: attemptAgain, err: err}
	}
	rec := newRecord(c.req)
	a := p.send(ctx)
	err = rec.readWritten(a, c.req)
	swallowed := err == errSwallowed
	if swallowed {
		err = nil
	}
	err = a.close(err) // reads to the end, which is where the server has committed
	switch classifyWhole(conn.PgConn(), err) {
	case commitDone:
		if swallowed {
			c.d.distrust()
			return attempt{state: attemptBroken, err: errSwallowed}
		}
		if err := checkSession(conn.PgConn()); err != nil { // the statement's doing: the row came in that encoding
			return attempt{state: attemptUnknown, err: err, sent: start}
		}
		c.sql.took.Store(int64(time.Since(start)))
		return attempt{state: attemptExecuted, rec: rec}
	case commitUnknown:
		c.adrift = true
		return attempt{state: attemptUnknown, err: err, sent: start}
	default:
		c.sql.took.Store(0)
		on.outdateAfter(whole, err)
		dropSpoiled(ctx, conn, err)
		return attempt{state: attemptAgain, err: err}
	}
}

// classifyWhole is classifyCommit for a statement that is its own transaction:
// the answer to it comes before its commit, and only the end of the pipeline
// after. An error of the server's that leaves the connection open, idle and well
// was raised before the commit.
func classifyWhole(pg *pgconn.PgConn, err error) commitOutcome {
	switch {
	case err != nil && isUnsent(err):
		return commitNever
	case pg.IsClosed(), pg.TxStatus() != 'I':
		return commitUnknown
	case err == nil:
		return commitDone
	case isPlainError(err):
		return commitNever
	default:
		return commitUnknown
	}
}

// newRecord is the record of a call that is done, but for its result and times.
func newRecord(req *request) record {
	return record{fingerprint: req.fingerprint, argDigests: req.argDigests, outcome: outcomeDone}
}

// readWritten reads what withRecord and withLook return.
func (r *record) readWritten(a *answers, req *request) error {
	row := &a.row
	err := a.scan(&row.result, &row.times[0])
	switch err {
	case pgx.ErrNoRows:
		return errSwallowed
	case nil:
		r.result = *row.result
		r.bear(row.times[0], req)
	}
	return err
}

// afterWhole says what comes after a statement that did not commit.
func (c *doCall) afterWhole(ctx context.Context, err error) (step, error) {
	switch sqlState(err) {
	case codeUniqueViolation, codeInvalidText: // a lost race, or the gate: most likely
	default:
		return stepAgain, nil
	}
	seen, lookErr := c.d.look(ctx, c.req, c.d.order.peek)
	switch {
	case lookErr == nil && seen.found:
		if sqlState(err) == codeUniqueViolation && c.during(&seen.rec) { // else a replay
			c.d.traceConflict(ctx, c.req, err, true)
		}
		return c.found(seen.rec)
	case lookErr == nil && seen.busy:
		return c.wait(ctx, c.d.order.peek)
	default:
		return stepAgain, nil // which meets the same, if it lasts
	}
}
