package dedup

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
//   - the pipeline could not be prepared: COMMIT was not sent.
//   - before tells that err came in place of an answer to a statement before COMMIT.
//     Where it says that the server ended the session because the transaction was idle
//     or took too long, COMMIT was not reached. In place of the answer to COMMIT it
//     proves nothing: the limit may have been reached while the server committed.
//   - closed: nobody knows. Its last status is worthless.
//   - open, in a transaction: the COMMIT was skipped.
//   - open, idle: committed if the server said COMMIT; rolled back if it said
//     ROLLBACK or raised an ERROR of its own. FATAL is no proof: a pooler that lost
//     its server after the commit record was written answers FATAL 08P01 (measured).
func classifyCommit(pg *pgconn.PgConn, tag pgconn.CommandTag, err error, before bool) commitOutcome {
	status := pg.TxStatus()
	switch {
	case err != nil && (isUnsent(err) || before && isTxTimeout(err)):
		return commitNever
	case pg.IsClosed():
		return commitUnknown
	case status == 'T', status == 'E':
		return commitNever
	case err == nil && tag.String() == "COMMIT":
		return commitDone
	case err == nil && tag.String() == "ROLLBACK":
		return commitNever
	case err != nil && isPlainError(err) && !isFromBehind(err):
		return commitNever
	default:
		return commitUnknown
	}
}

// isFromBehind tells whether an error of COMMIT may be that of a server to which the
// COMMIT was passed on, or of the way to it. Citus raises XX000 where a worker's answer
// to COMMIT is lost, and the worker may commit yet (measured).
func isFromBehind(err error) bool {
	state := sqlState(err)
	return strings.HasPrefix(state, "XX") || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") ||
		state == codeCompletionUnknown
}

// isUnsent tells that a pipeline could not be prepared, so that none of it ran.
func isUnsent(err error) bool {
	unsent := pgx.ErrPreprocessingBatch{}
	return errors.As(err, &unsent)
}

// isPlainError tells that the server raised err and goes on.
func isPlainError(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && severity(server) == "ERROR"
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
	limitIO(conn, d.opts.CommitTimeout)
	defer unlimitIO(conn)

	p := lineOf(conn).pipeline()
	rec = d.queue(p, req, open, out, text)
	p.queue(d.sql.commit)
	a := p.send(p.uncancelled(ctx))
	err = readRecord(a, &rec, req)
	atRecord = err != nil
	what, err = a.finish(conn.PgConn(), err)
	return rec, what, atRecord, err
}

// finish reads the answer to COMMIT and closes a pipeline; err is the error of
// what came before it.
func (a *answers) finish(pg *pgconn.PgConn, err error) (commitOutcome, error) {
	var tag pgconn.CommandTag
	before := err != nil && err != errSwallowed
	if !before {
		var commitErr error
		tag, commitErr = a.exec()
		err = orElse(err, commitErr)
	}
	err = a.close(err)
	if err == errSwallowed {
		return classifyCommit(pg, tag, nil, false), err
	}
	what := classifyCommit(pg, tag, err, before)
	if err == nil && what != commitDone {
		err = fmt.Errorf("dedup: COMMIT was answered with %q", tag)
	}
	return what, err
}

// queue queues the statement that writes the record and returns it but for its
// times.
func (d *Deduper) queue(p *pipeline, req *request, open *opening, out outcome, text string) record {
	rec := record{fingerprint: req.fingerprint, argDigests: req.argDigests, outcome: out, result: text}
	result := textParam(text)
	if out != outcomeDone && out != outcomeRefused {
		result, rec.tombstone = param{}, true
	}
	d.order.queueRecord(p, req, open, out, result)
	return rec
}

// readRecord reads the answer of the statement that queue queued: when the record
// was written.
func readRecord(a *answers, rec *record, req *request) error {
	at := &a.row.times[0]
	err := a.scan(at)
	rec.bear(*at, req)
	if err == pgx.ErrNoRows {
		return errSwallowed
	}
	return err
}

// errSwallowed: the statement of the record raised nothing and wrote nothing. A
// trigger or rule that does that was added after trustArbiter had looked.
var errSwallowed = errors.New("dedup: a trigger or rule on tool_dedup swallowed the record")

// limitIO bounds what is read from and written to conn. That is what a context
// with a timeout comes to in the end, without its ten allocations.
func limitIO(conn *pgx.Conn, limit time.Duration) {
	_ = conn.PgConn().Conn().SetDeadline(time.Now().Add(limit)) // fails where it is closed
}

// unlimitIO leaves a closed connection alone: pgx gives it a deadline of its own.
func unlimitIO(conn *pgx.Conn) {
	if pg := conn.PgConn(); !pg.IsClosed() {
		_ = pg.Conn().SetDeadline(time.Time{})
	}
}

// rollback ends whatever transaction is open on conn. It survives the caller's
// context, and closes a connection that does not answer.
func rollback(ctx context.Context, conn *pgx.Conn) {
	pg := conn.PgConn()
	if pg.IsClosed() || pg.TxStatus() == 'I' && !pg.IsBusy() {
		return
	}
	if !pg.IsBusy() {
		limitIO(conn, rollbackTimeout)
		_, err := conn.Exec(context.WithoutCancel(ctx), "rollback")
		unlimitIO(conn)
		if err == nil {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}
