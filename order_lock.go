package dedup

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// lockFirst takes the identity's advisory lock, looks up, and inserts the
// record with the COMMIT. The lock spares twins an effect in vain and shows
// that one is in flight; the primary key is what decides.
type lockFirst struct {
	sql       *statements
	txOptions pgx.TxOptions
}

func (o *lockFirst) open(ctx context.Context, conn *pgx.Conn, req *request) (opening, error) {
	b := &pgx.Batch{}
	b.BeginTx(o.txOptions)
	b.Queue(o.sql.lock, req.lock)
	b.Queue(o.sql.lookup, req.idArgs()...)
	br := conn.SendBatch(ctx, b)
	open := opening{tx: br.Tx()}
	_, err := br.Exec()
	return open, o.read(br, &open, err)
}

func (o *lockFirst) openIn(ctx context.Context, tx pgx.Tx, req *request) (opening, error) {
	b := &pgx.Batch{}
	b.Queue("savepoint " + savepoint)
	b.Queue(o.sql.lockCapped, req.lock)
	b.Queue(o.sql.lookup, req.idArgs()...)
	br := tx.SendBatch(ctx, b)
	var open opening
	_, err := br.Exec()
	open.marked = err == nil
	if err = o.read(br, &open, err); err != nil || !open.busy || req.maxWait < 0 {
		return open, err
	}

	// Two statements: the look-up's snapshot must be younger than the lock.
	b = &pgx.Batch{}
	readHurried := o.sql.queueHurried(b, req.maxWait, o.sql.lockWait, req.lock)
	b.Queue(o.sql.lookup, req.idArgs()...)
	br = tx.SendBatch(ctx, b)
	err = readHurried(br, func() error { _, err := br.Exec(); return err })
	if err == nil {
		open.busy = false
		open.forget, err = open.see(br.QueryRow())
	}
	return busyIfLocked(open, closeBatch(br, err))
}

// read takes the answers of the lock and of the look-up. A record that is found
// wins over a lock that is not: its transaction has ended.
func (o *lockFirst) read(br pgx.BatchResults, open *opening, err error) error {
	var locked bool
	if err == nil {
		err = br.QueryRow().Scan(&locked, &open.started, nil)
	}
	if err == nil {
		open.forget, err = open.see(br.QueryRow())
	}
	open.busy = !locked && !open.found
	return closeBatch(br, err)
}

func (o *lockFirst) queueRecord(b *pgx.Batch, req *request, open *opening, out outcome, result *string) {
	if open.forget {
		b.Queue(o.sql.forget, req.idArgs()...)
	}
	b.Queue(o.sql.insert, recordArgs(req, open.started, out, result)...)
}

func (o *lockFirst) peek(ctx context.Context, conn *pgx.Conn, req *request) (sighting, error) {
	b := &pgx.Batch{}
	b.Queue(o.sql.peekLock, req.lock)
	b.Queue(o.sql.lookup, req.idArgs()...)
	br := conn.SendBatch(ctx, b)
	var locked bool
	var s sighting
	err := br.QueryRow().Scan(&locked)
	if err == nil {
		_, err = s.see(br.QueryRow())
	}
	s.busy = !locked && !s.found
	return s, closeBatch(br, err)
}

func (o *lockFirst) probe(ctx context.Context, conn *pgx.Conn, req *request) (sighting, error) {
	return o.peek(ctx, conn, req)
}

func (o *lockFirst) sweepLocked() bool { return true }

// closeBatch closes br and returns the first error there was.
func closeBatch(br pgx.BatchResults, err error) error {
	if closeErr := br.Close(); err == nil {
		err = closeErr
	}
	return err
}
