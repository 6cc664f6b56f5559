package dedup

import (
	"context"
	"time"

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
	forgotten, err := o.read(br, &open)
	if err == nil && forgotten && !open.busy {
		err = o.forget(ctx, conn, req, claimTimeout)
	}
	return busyIfLocked(open, err)
}

func (o *lockFirst) openIn(ctx context.Context, tx pgx.Tx, mark string, req *request) (opening, error) {
	b := &pgx.Batch{}
	b.Queue("savepoint " + mark)
	b.Queue(o.sql.lockCapped, req.lock)
	b.Queue(o.sql.lookup, req.idArgs()...)
	var open opening
	forgotten, err := o.read(tx.SendBatch(ctx, b), &open)
	if err == nil && open.busy && req.maxWait >= 0 {
		forgotten, err = o.await(ctx, tx, req, &open)
	}
	if err == nil && forgotten && !open.busy {
		err = o.forget(ctx, tx, req, hurried(req.maxWait))
	}
	return busyIfLocked(open, err)
}

// read takes the answers of BEGIN or SAVEPOINT, of the lock and of the look-up.
// A record that is found wins over a lock that is not: its transaction has ended.
func (o *lockFirst) read(br pgx.BatchResults, open *opening) (forgotten bool, err error) {
	var locked bool
	if _, err = br.Exec(); err == nil {
		open.marked = true
		err = br.QueryRow().Scan(&locked, &open.started, nil)
	}
	if err == nil {
		forgotten, err = open.see(br.QueryRow())
	}
	open.busy = !locked && !open.found
	return forgotten, closeBatch(br, err)
}

// await waits for the lock inside Postgres. The look-up is a statement of its
// own: its snapshot must be younger than the lock.
func (o *lockFirst) await(ctx context.Context, tx pgx.Tx, req *request, open *opening) (forgotten bool, err error) {
	b := &pgx.Batch{}
	readHurried := o.sql.queueHurried(b, req.maxWait, o.sql.lockWait, req.lock)
	b.Queue(o.sql.lookup, req.idArgs()...)
	br := tx.SendBatch(ctx, b)
	err = readHurried(br, func() error { _, err := br.Exec(); return err })
	if err == nil {
		open.busy = false
		forgotten, err = open.see(br.QueryRow())
	}
	return forgotten, closeBatch(br, err)
}

// forget makes room for a new record before the effect is run, so that somebody
// who holds the old row, such as a sweep, is met before it and not after.
func (o *lockFirst) forget(ctx context.Context, on sender, req *request, limit time.Duration) error {
	b := &pgx.Batch{}
	readHurried := o.sql.queueHurried(b, limit, o.sql.forget, req.idArgs()...)
	br := on.SendBatch(ctx, b)
	err := readHurried(br, func() error { _, err := br.Exec(); return err })
	return closeBatch(br, err)
}

func (o *lockFirst) queueRecord(b *pgx.Batch, req *request, open *opening, out outcome, result *string) {
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
