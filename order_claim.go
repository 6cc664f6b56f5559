package dedup

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// claimFirst inserts the identity before the effect and completes the row with
// the COMMIT. A twin's claim makes the insert wait inside Postgres, so it is
// sent with a short lock_timeout and given up as busy.
//
// The claim is ON CONFLICT DO NOTHING, which looks before it writes: a twin
// leaves no dead row behind. That is safe here, and only here, because no
// COMMIT travels with it.
type claimFirst struct {
	sql       *statements
	txOptions pgx.TxOptions
}

func (o *claimFirst) open(ctx context.Context, conn *pgx.Conn, req *request) (opening, error) {
	b := &pgx.Batch{}
	b.BeginTx(o.txOptions)
	b.Queue(o.sql.prepare)
	readClaim := o.queueClaim(b, req, claimTimeout)
	br := conn.SendBatch(ctx, b)
	open := opening{tx: br.Tx()}
	return o.read(ctx, conn, br, req, claimTimeout, open, readClaim)
}

func (o *claimFirst) openIn(ctx context.Context, tx pgx.Tx, mark string, req *request) (opening, error) {
	limit := hurried(req.maxWait)
	b := &pgx.Batch{}
	b.Queue("savepoint " + mark)
	b.Queue(o.sql.join)
	readClaim := o.queueClaim(b, req, limit)
	br := tx.SendBatch(ctx, b)
	return o.read(ctx, tx, br, req, limit, opening{}, readClaim)
}

// read takes the answers of BEGIN or SAVEPOINT, of the statement that names the
// transaction, and of the claim.
func (o *claimFirst) read(ctx context.Context, on sender, br pgx.BatchResults, req *request, limit time.Duration, open opening, readClaim readClaim) (opening, error) {
	var forgotten bool
	_, err := br.Exec()
	if err == nil {
		open.marked = true
		err = br.QueryRow().Scan(nil, &open.started, nil)
	}
	if err == nil {
		forgotten, err = readClaim(br, &open)
	}
	if err = closeBatch(br, err); err == nil && forgotten {
		old := open.rec
		err = o.replaceForgotten(ctx, on, req, &open, limit)
		if !open.found { // what was there is still what was seen
			open.rec = old
		}
	}
	return busyIfLocked(open, err)
}

// readClaim reads the answers of what queueClaim queued.
type readClaim func(br pgx.BatchResults, open *opening) (forgotten bool, err error)

// queueClaim queues the claim and a look-up that sees whatever stood in its way.
func (o *claimFirst) queueClaim(b *pgx.Batch, req *request, limit time.Duration) readClaim {
	readHurried := o.sql.queueHurried(b, limit, o.sql.claim, req.scope, req.tool, req.key,
		req.fingerprint[:], req.argDigests, req.retention.keep(), req.retention.forget())
	b.Queue(o.sql.lookup, req.idArgs()...)
	return func(br pgx.BatchResults, open *opening) (forgotten bool, err error) {
		var claimed bool
		err = readHurried(br, func() error {
			tag, err := br.Exec()
			claimed = tag.RowsAffected() == 1
			return err
		})
		if err == nil {
			forgotten, err = open.see(br.QueryRow())
		}
		if claimed { // and what the look-up saw is the claim itself
			open.sighting, forgotten = sighting{}, false
		}
		open.hidden = !claimed && !open.found
		return forgotten, err
	}
}

// replaceForgotten deletes a record that may be forgotten and claims its
// identity anew. A record that comes back meanwhile, as old as before, counts as
// hidden.
func (o *claimFirst) replaceForgotten(ctx context.Context, on sender, req *request, open *opening, limit time.Duration) error {
	b := &pgx.Batch{}
	readHurried := o.sql.queueHurried(b, limit, o.sql.forget, req.idArgs()...)
	readClaim := o.queueClaim(b, req, limit)
	br := on.SendBatch(ctx, b)
	err := readHurried(br, func() error { _, err := br.Exec(); return err })
	if err == nil {
		_, err = readClaim(br, open)
	}
	return closeBatch(br, err)
}

func (o *claimFirst) queueRecord(b *pgx.Batch, req *request, open *opening, out outcome, result *string) {
	b.Queue(o.sql.complete, recordArgs(req, open.started, out, result)...)
}

// peek cannot see a claim; a twin in flight looks free, and the attempt that
// follows finds it busy.
func (o *claimFirst) peek(ctx context.Context, conn *pgx.Conn, req *request) (sighting, error) {
	var s sighting
	_, err := s.see(conn.QueryRow(ctx, o.sql.lookup, req.idArgs()...))
	return s, err
}

// probe claims and leaves the transaction to be rolled back: the only way to
// see a claim.
func (o *claimFirst) probe(ctx context.Context, conn *pgx.Conn, req *request) (sighting, error) {
	committed := claimFirst{sql: o.sql, txOptions: pgx.TxOptions{IsoLevel: pgx.ReadCommitted}}
	open, err := committed.open(ctx, conn, req)
	return open.sighting, err
}

func (o *claimFirst) sweepLocked() bool { return false }
