package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/wire"
)

// verdict says in what state an effect that returned err left its transaction.
// Once the transaction is gone nothing else counts.
func (e *guardedTx) verdict(ctx context.Context, started time.Time, err error) error {
	pg := ConnOf(e.tx).PgConn()
	switch {
	case pg.IsClosed():
		return cmp.Or(err, e.lost())
	case pg.IsBusy():
		return cmp.Or(err, ErrTxBusy)
	case pg.TxStatus() == 'I':
		return ErrTxEnded
	case err != nil && e.connAsked.Load() && e.swapped(ctx, started):
		return ErrTxEnded
	case e.refused.Load() && err != nil && !errors.Is(err, ErrTxControl):
		// Not wrapped: it could be Final, and this call must not be recorded.
		return fmt.Errorf("%w (the effect returned: %s)", ErrTxControl, err.Error())
	case e.refused.Load():
		return cmp.Or(err, ErrTxControl)
	case pg.TxStatus() == 'E':
		return cmp.Or(err, e.aborted())
	case err == nil:
		return wire.CheckSession(pg)
	}
	return err
}

// aborted is ErrTxAborted with the error that was ignored, where it was seen.
func (e *guardedTx) aborted() error {
	if failed := e.failed.Load(); failed != nil {
		return fmt.Errorf("%w: %w", ErrTxAborted, failed)
	}
	return ErrTxAborted
}

// lost is the end of an effect that did not report its connection's. Where the
// server ended the session because of a limit it is that, which is no fault that
// passes: the effect would meet the limit again.
func (e *guardedTx) lost() error {
	if failed := e.failed.Load(); failed != nil && wire.IsTxTimeout(failed) {
		return failed
	}
	return errConnLost
}

// errConnLost is the end of an effect that did not notice its connection's.
var errConnLost = fmt.Errorf("dedup: the connection was lost inside the effect: %w", pgconn.ErrConnClosed)

// swapped reports whether the connection is in another transaction than the one
// that started then. An aborted one cannot be asked and passes.
func (e *guardedTx) swapped(ctx context.Context, started time.Time) bool {
	conn := ConnOf(e.tx)
	if conn.PgConn().TxStatus() != 'T' {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	var now time.Time
	err := conn.QueryRow(ctx, "SELECT pg_catalog.now()").Scan(&now)
	return err == nil && !now.Equal(started)
}
