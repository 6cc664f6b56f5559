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
	err := readStart(br, &open)
	if err == nil {
		err = readClaim(br, &open)
	}
	if err = closeBatch(br, err); err == nil && open.forget {
		err = o.replaceForgotten(ctx, conn, req, &open, claimTimeout)
	}
	return busyIfLocked(open, err)
}

func (o *claimFirst) openIn(ctx context.Context, tx pgx.Tx, req *request) (opening, error) {
	limit := req.maxWait
	if limit < 0 {
		limit = claimTimeout
	}
	b := &pgx.Batch{}
	b.Queue("savepoint " + savepoint)
	b.Queue(o.sql.join)
	readClaim := o.queueClaim(b, req, limit)
	br := tx.SendBatch(ctx, b)
	var open opening
	err := readStart(br, &open)
	if err == nil {
		err = readClaim(br, &open)
	}
	if err = closeBatch(br, err); err == nil && open.forget {
		err = o.replaceForgotten(ctx, tx, req, &open, limit)
	}
	return busyIfLocked(open, err)
}

// readStart reads the answers of BEGIN or SAVEPOINT and of the statement that
// names the transaction.
func readStart(br pgx.BatchResults, open *opening) error {
	if _, err := br.Exec(); err != nil {
		return err
	}
	open.marked = true
	return br.QueryRow().Scan(nil, &open.started, nil)
}

// queueClaim queues the claim and a look-up that sees whatever stood in its
// way, and returns how to read their answers.
func (o *claimFirst) queueClaim(b *pgx.Batch, req *request, limit time.Duration) func(pgx.BatchResults, *opening) error {
	readHurried := o.sql.queueHurried(b, limit, o.sql.claim, req.scope, req.tool, req.key,
		req.fingerprint[:], req.argDigests, req.retention.keep(), req.retention.forget())
	b.Queue(o.sql.lookup, req.idArgs()...)
	return func(br pgx.BatchResults, open *opening) error {
		var claimed bool
		err := readHurried(br, func() error {
			tag, err := br.Exec()
			claimed = tag.RowsAffected() == 1
			return err
		})
		if err == nil {
			open.forget, err = open.see(br.QueryRow())
		}
		if claimed { // and what the look-up saw is the claim itself
			open.sighting, open.forget = sighting{}, false
		}
		open.hidden = !claimed && !open.found && !open.forget
		return err
	}
}

// replaceForgotten deletes a record that may be forgotten and claims its
// identity anew.
func (o *claimFirst) replaceForgotten(ctx context.Context, conn interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}, req *request, open *opening, limit time.Duration) error {
	b := &pgx.Batch{}
	b.Queue(o.sql.forget, req.idArgs()...)
	readClaim := o.queueClaim(b, req, limit)
	br := conn.SendBatch(ctx, b)
	_, err := br.Exec()
	if err == nil {
		err = readClaim(br, open)
	}
	if open.forget { // it came back in between, as old as before
		open.forget, open.hidden = false, true
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
