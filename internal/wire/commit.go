package wire

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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
