package wire

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Outcome is what is known of a transaction after its COMMIT was sent.
type Outcome int

const (
	// Unknown: the transaction may have committed, or may commit yet.
	Unknown Outcome = iota
	// Committed: the server said so.
	Committed
	// NotCommitted: it was rolled back, or it is still open and will be rolled back.
	NotCommitted
)

// Commit reads the answer to COMMIT, which ends a pipeline that SendUncancelled has sent, and closes it.
func (p *Pipeline) Commit(pg *pgconn.PgConn) (Outcome, error) {
	defer p.conn.unshield()
	tag := p.Exec()
	before := p.err != nil && p.answered < len(p.ignored)-1
	err := p.Close()
	outcome := OutcomeOfCommit(pg, tag, err, before)
	if err == nil && outcome != Committed {
		err = fmt.Errorf("dedup: COMMIT was answered with %q", tag)
	}
	return outcome, err
}

// OutcomeOfCommit reads the outcome of a pipeline that ended with COMMIT from the state
// of the connection after the pipeline was closed. It reads neither the error's text nor
// pgconn.SafeToRetry.
//
//   - The pipeline could not be prepared: COMMIT was not sent.
//   - before is true when err came in place of an answer to a statement before COMMIT.
//     Where it says that the server ended the session because the transaction was idle
//     or took too long, COMMIT was not reached. In place of the answer to COMMIT it
//     says nothing: the server looks at that limit once more after it has committed.
//   - Closed: the outcome is unknown. Its last status is worthless.
//   - Open, in a transaction: the COMMIT was skipped.
//   - Open, idle: committed if the server said COMMIT; rolled back if it said
//     ROLLBACK or raised an ERROR of its own. FATAL is no proof: a pooler that lost
//     its server after the commit record was written answers FATAL 08P01 (measured).
func OutcomeOfCommit(pg *pgconn.PgConn, tag pgconn.CommandTag, err error, before bool) Outcome {
	status := pg.TxStatus()
	switch {
	case err != nil && (IsUnsent(err) || before && IsTxTimeout(err)):
		return NotCommitted
	case pg.IsClosed():
		return Unknown
	case status == 'T', status == 'E':
		return NotCommitted
	case err == nil && tag.String() == "COMMIT":
		return Committed
	case err == nil && tag.String() == "ROLLBACK":
		return NotCommitted
	case err != nil && IsRaised(err) && !isFromBehind(err):
		return NotCommitted
	default:
		return Unknown
	}
}

// isFromBehind reports whether an error of COMMIT may be that of a server to which the
// COMMIT was passed on, or of the way to it. Citus raises XX000 where a worker's answer
// to COMMIT is lost, and the worker may commit yet (measured).
func isFromBehind(err error) bool {
	state := SQLState(err)
	return strings.HasPrefix(state, "XX") || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") ||
		state == codeCompletionUnknown
}
