package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CommitOutcome is the state of a transaction after its COMMIT was sent.
type CommitOutcome int

const (
	// Unknown: the transaction may have committed, or may commit yet.
	Unknown CommitOutcome = iota
	// Committed: the server confirmed it.
	Committed
	// NotCommitted: the transaction was rolled back, or is open and will be rolled back.
	NotCommitted
)

// Commit reads the reply to COMMIT at the end of a pipeline that SendUncancelled sent, and closes
// the pipeline.
func (p *Pipeline) Commit(pg *pgconn.PgConn) (CommitOutcome, error) {
	defer p.conn.unshield()
	tag := p.Exec()
	beforeCommit := p.err != nil && p.succeeded < len(p.ignored)-1
	err := p.Close()
	outcome := OutcomeOfCommit(pg, tag, err, beforeCommit)
	if err == nil && outcome != Committed {
		err = fmt.Errorf("dedup: COMMIT was answered with %q", tag)
	}
	return outcome, err
}

// OutcomeOfCommit determines the outcome of a pipeline that ended with COMMIT from the state of the
// connection after the pipeline was closed. It uses neither the error's text nor
// pgconn.SafeToRetry.
//
//   - The pipeline could not be prepared: COMMIT was not sent.
//   - beforeCommit is true if err replaced the reply to a statement before COMMIT. If the server
//     ended the session there, because the transaction was idle or took too long, it did not reach
//     COMMIT. As the reply to COMMIT, such an error proves nothing: the server checks that limit
//     again after it committed.
//   - Closed: the outcome is unknown. The last status is useless.
//   - Open, in a transaction: the COMMIT was skipped.
//   - Open, idle: committed if the server replied COMMIT; rolled back if it replied ROLLBACK or
//     raised its own ERROR. FATAL proves nothing: a pooler that lost its server after the commit
//     record was written replies FATAL 08P01 (measured).
func OutcomeOfCommit(pg *pgconn.PgConn, tag pgconn.CommandTag, err error, beforeCommit bool) CommitOutcome {
	status := pg.TxStatus()
	switch {
	case err != nil && (IsUnsent(err) || beforeCommit && IsTxTimeout(err)):
		return NotCommitted
	case pg.IsClosed():
		return Unknown
	case status == 'T', status == 'E':
		return NotCommitted
	case err == nil && tag.String() == "COMMIT":
		return Committed
	case err == nil && tag.String() == "ROLLBACK":
		return NotCommitted
	case err != nil && IsRaised(err) && !mayBeForwarded(err):
		return NotCommitted
	default:
		return Unknown
	}
}

// mayBeForwarded reports whether an error of COMMIT may come from another server, to which COMMIT
// was passed on, or from the connection to it. Citus raises XX000 if the reply of a worker to
// COMMIT is lost, and the worker may still commit (measured).
func mayBeForwarded(err error) bool {
	state := SQLState(err)
	return strings.HasPrefix(state, "XX") || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") ||
		state == codeCompletionUnknown
}

// ShieldCommit keeps pgx from sending cancel requests for conn until lift is called. Use it for a
// COMMIT, and for a statement that commits by autocommit.
//
// pgx answers a read that fails or times out with a CancelRequest. If the server gets one while a
// COMMIT waits for a synchronous standby, it ends the wait and shows a commit that no standby has.
// A call that then reads the record returns its answer, and a failover loses the record (measured).
// pgx cannot be told not to. So ShieldCommit blanks its secret key in place: the server logs a
// wrong key and continues to wait.
//
// If the connection is closed, the secret stays blank: a goroutine of pgx may be reading it.
func ShieldCommit(conn *pgx.Conn) (lift func()) {
	c := On(conn)
	c.shield()
	return c.unshield
}

func (c *Conn) shield() {
	key := c.pgx.PgConn().SecretKey()
	if c.secret == nil {
		c.secret = bytes.Clone(key)
	}
	if !c.pgx.IsClosed() {
		clear(key)
	}
}

func (c *Conn) unshield() {
	if !c.pgx.IsClosed() {
		copy(c.pgx.PgConn().SecretKey(), c.secret)
	}
}

// CommitTx commits tx, a transaction of conn, and returns the outcome. It waits for up to limit
// after the end of ctx, because a cancelled COMMIT has an unknown outcome.
func CommitTx(ctx context.Context, conn *pgx.Conn, tx pgx.Tx, limit time.Duration) (CommitOutcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	defer ShieldCommit(conn)()
	switch err := tx.Commit(ctx); {
	case err == nil:
		return Committed, nil
	case errors.Is(err, pgx.ErrTxClosed): // it ended before
		return Unknown, err
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return NotCommitted, err
	default:
		return OutcomeOfCommit(conn.PgConn(), pgconn.CommandTag{}, err, false), err
	}
}

// InTx is [pgx.BeginTxFunc] with CommitTx: the end of ctx interrupts do but not the COMMIT.
func InTx(ctx context.Context, conn *pgx.Conn, opts pgx.TxOptions, limit time.Duration, do func(pgx.Tx) error) error {
	tx, err := conn.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { // past a panic too; after COMMIT it does nothing
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err = do(tx); err == nil {
		_, err = CommitTx(ctx, conn, tx, limit)
	}
	return err
}
