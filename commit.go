package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// commitOutcome is what is known after the pipeline that carries COMMIT.
type commitOutcome int

const (
	// commitUnknown: the transaction may have committed, or may commit yet.
	commitUnknown commitOutcome = iota
	commitDone
	// commitNever: certainly rolled back, or still open and to be rolled back.
	commitNever
)

// classifyCommit decides from the state of the connection after the pipeline
// was closed, not from the error's text or from pgconn.SafeToRetry: pgx 5.9.0
// to 5.12.0 call a lost COMMIT safe to retry (measured).
//
//   - the pipeline could not be prepared, or the server had ended the session
//     because the transaction was idle: COMMIT was never reached.
//   - closed: nobody knows. Its last status is worthless.
//   - open, in a transaction: the COMMIT was skipped.
//   - open, idle: committed if the server said COMMIT; rolled back if it said
//     ROLLBACK or raised an ERROR. FATAL is no proof: a pooler that lost its
//     server after the commit record was written answers FATAL 08P01 (measured).
func classifyCommit(pg *pgconn.PgConn, tag pgconn.CommandTag, err error) commitOutcome {
	if unsent := (pgx.ErrPreprocessingBatch{}); errors.As(err, &unsent) || sqlState(err) == codeIdleInTransaction {
		return commitNever
	}
	if pg.IsClosed() {
		return commitUnknown
	}
	if status := pg.TxStatus(); status == 'T' || status == 'E' {
		return commitNever
	}
	var server *pgconn.PgError
	switch {
	case err == nil && tag.String() == "COMMIT":
		return commitDone
	case err == nil && tag.String() == "ROLLBACK":
		return commitNever
	case errors.As(err, &server) && severity(server) == "ERROR":
		return commitNever
	default:
		return commitUnknown
	}
}

// severity prefers the field that is never translated; servers before 9.6 and
// some poolers send only the other.
func severity(err *pgconn.PgError) string {
	if err.SeverityUnlocalized != "" {
		return err.SeverityUnlocalized
	}
	return err.Severity
}

// commit sends the record and COMMIT in one pipeline. atRecord tells whether an
// error came from writing the record rather than from COMMIT.
//
// It runs on a context of its own: cancelling it would turn the outcome into a
// guess, and make pgx cancel a wait for a synchronous standby, which shows a
// commit that is not replicated (measured).
func (d *Deduper) commit(ctx context.Context, conn *pgx.Conn, req *request, open *opening, out outcome, text string) (rec record, what commitOutcome, atRecord bool, err error) {
	defer within(conn, d.opts.CommitTimeout)()

	p := lineOf(conn).pipeline()
	rec = d.queue(p, req, open, out, text)
	p.queue(d.sql.commit)
	a := p.send(context.WithoutCancel(ctx))
	err = readRecord(a, &rec)
	atRecord = err != nil
	var tag pgconn.CommandTag
	if err == nil || err == errSwallowed {
		var commitErr error
		tag, commitErr = a.exec()
		err = orElse(err, commitErr)
	}
	err = a.close(err)
	if err == errSwallowed {
		return rec, classifyCommit(conn.PgConn(), tag, nil), atRecord, err
	}
	what = classifyCommit(conn.PgConn(), tag, err)
	if err == nil && what != commitDone {
		err = fmt.Errorf("dedup: COMMIT was answered with %q", tag)
	}
	return rec, what, atRecord, err
}

// queue queues the statement that writes the record and returns it but for its
// times.
func (d *Deduper) queue(p *pipeline, req *request, open *opening, out outcome, text string) record {
	rec := record{fingerprint: req.fingerprint, argDigests: req.argDigests, outcome: out, result: text}
	result := &text
	if out != outcomeDone && out != outcomeRefused {
		result, rec.tombstone = nil, true
	}
	d.order.queueRecord(p, req, open, out, result)
	return rec
}

// readRecord reads the answer of the statement that queue queued: the record's
// times.
func readRecord(a *answers, rec *record) error {
	err := a.row(&rec.createdAt, &rec.expiresAt, &rec.forgetAt)
	rec.seenAt = rec.createdAt
	if err == pgx.ErrNoRows {
		return errSwallowed
	}
	return err
}

// errSwallowed: the statement of the record raised nothing and wrote nothing. A
// trigger or rule that does that was added after trustArbiter had looked.
var errSwallowed = errors.New("dedup: a trigger or rule on tool_dedup swallowed the record")

// within bounds what is read from and written to conn, until the function that
// it returns is called. That is what a context with a timeout comes to in the
// end, without its ten allocations.
func within(conn *pgx.Conn, limit time.Duration) (done func()) {
	socket := conn.PgConn().Conn()
	_ = socket.SetDeadline(time.Now().Add(limit)) // fails where the connection is closed
	return func() { _ = socket.SetDeadline(time.Time{}) }
}

// rollback ends whatever transaction is open on conn. It survives the caller's
// context, and closes a connection that does not answer.
func rollback(ctx context.Context, conn *pgx.Conn) {
	pg := conn.PgConn()
	if pg.IsClosed() || pg.TxStatus() == 'I' && !pg.IsBusy() {
		return
	}
	if !pg.IsBusy() {
		done := within(conn, rollbackTimeout)
		_, err := conn.Exec(context.WithoutCancel(ctx), "rollback")
		done()
		if err == nil {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}
