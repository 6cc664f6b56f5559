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
	status := pg.TxStatus()
	switch {
	case err != nil && (isUnsent(err) || sqlState(err) == codeIdleInTransaction):
		return commitNever
	case pg.IsClosed():
		return commitUnknown
	case status == 'T', status == 'E':
		return commitNever
	case err == nil && tag.String() == "COMMIT":
		return commitDone
	case err == nil && tag.String() == "ROLLBACK":
		return commitNever
	case err != nil && isPlainError(err):
		return commitNever
	default:
		return commitUnknown
	}
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
func (d *Deduper) commit(ctx context.Context, conn *pgx.Conn, req *request, open *opening, out outcome, text string, limit time.Duration) (rec record, what commitOutcome, atRecord bool, err error) {
	limitIO(conn, d.opts.CommitTimeout)
	defer unlimitIO(conn)

	p := lineOf(conn).pipeline()
	rec = d.queue(p, req, open, out, text, limit)
	p.queue(d.sql.commit)
	a := p.send(p.uncancelled(ctx))
	err = readRecord(a, &rec, req, limit)
	atRecord = err != nil
	what, err = a.finish(conn.PgConn(), err)
	return rec, what, atRecord, err
}

// finish reads the answer to COMMIT and closes a pipeline; err is the error of
// what came before it.
func (a *answers) finish(pg *pgconn.PgConn, err error) (commitOutcome, error) {
	var tag pgconn.CommandTag
	if err == nil || err == errSwallowed {
		var commitErr error
		tag, commitErr = a.exec()
		err = orElse(err, commitErr)
	}
	err = a.close(err)
	if err == errSwallowed {
		return classifyCommit(pg, tag, nil), err
	}
	what := classifyCommit(pg, tag, err)
	if err == nil && what != commitDone {
		err = fmt.Errorf("dedup: COMMIT was answered with %q", tag)
	}
	return what, err
}

// queue queues the statement that writes the record and returns it but for its
// times. Somebody without the identity's lock may be about to write one too; the
// statement waits for that no longer than limit, where it is not 0.
func (d *Deduper) queue(p *pipeline, req *request, open *opening, out outcome, text string, limit time.Duration) record {
	rec := record{fingerprint: req.fingerprint, argDigests: req.argDigests, outcome: out, result: text}
	result := textParam(text)
	if out != outcomeDone && out != outcomeRefused {
		result, rec.tombstone = param{}, true
	}
	if limit != 0 {
		d.sql.queueHurry(p, limit)
	}
	d.order.queueRecord(p, req, open, out, result)
	if limit != 0 {
		p.queue(d.sql.unhurry)
	}
	return rec
}

// readRecord reads the answers of what queue queued: when the record was written.
func readRecord(a *answers, rec *record, req *request, limit time.Duration) error {
	if limit != 0 {
		if _, err := a.exec(); err != nil {
			return err
		}
	}
	at := &a.row.times[0]
	err := a.scan(at)
	rec.bear(*at, req)
	if limit != 0 && (err == nil || err == pgx.ErrNoRows) {
		if _, unhurry := a.exec(); unhurry != nil {
			return unhurry
		}
	}
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
