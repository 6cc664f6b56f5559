package dedup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// sweepSpan is the span of time in which a batch's records fall due, both ends
// included. It is named by both, because an end alone leaves the planner to
// guess how much lies before it: from old statistics it takes that for half the
// table, and reads all of it for every batch (measured).
type sweepSpan struct {
	first, last pgtype.Timestamptz
	records     int // those that were due when it was found, without ties at the end
}

// sweepBatch finds the span of the next records after a moment and lets go of
// all of them. The span is found outside the transaction: it holds nothing.
func (d *Deduper) sweepBatch(ctx context.Context, o SweepOptions, after pgtype.Timestamptz, size int) (span sweepSpan, batch SweepResult, err error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return span, batch, err
	}
	defer d.release(ctx, conn) // rolls back, after a panic of the hook too
	err = conn.QueryRow(ctx, d.sql.sweepSpan, after, size).Scan(&span.first, &span.last, &span.records)
	switch {
	case err != nil || span.records == 0:
	case o.Archive == nil:
		batch, err = d.sweepSpan(ctx, conn.Conn(), span)
	default:
		err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
			return d.archiveBatch(ctx, tx, span, o, &batch)
		})
	}
	if err == errSweeping {
		return span, SweepResult{Skipped: true}, nil
	}
	return span, batch, err
}

// errSweeping: another instance is sweeping.
var errSweeping = errors.New("dedup: another instance is sweeping")

// prepareError is an error of the statement that prepares a batch's transaction.
func prepareError(err error) error {
	if sqlState(err) == codeDivisionByZero {
		return errSweeping
	}
	return err
}

// sweepSpan is one transaction in one pipeline. Once it is sent the server goes
// through with it, whatever becomes of this process. Its statements are not
// prepared: that would wait for a lock on the table without a limit, and choose a
// plan that knows of no span.
func (d *Deduper) sweepSpan(ctx context.Context, conn *pgx.Conn, span sweepSpan) (batch SweepResult, err error) {
	first, last := timeParam(span.first.Time), timeParam(span.last.Time)
	p := lineOf(conn).pipeline()
	p.queue(query{text: "begin isolation level read committed read write"})
	p.queue(query{text: d.sql.sweepPrepare})
	p.queue(query{text: d.sql.sweepForget}, first, last)
	p.queue(query{text: d.sql.sweepExpire}, first, last)
	p.queue(d.sql.commit)
	a := p.send(ctx)
	_, err = a.exec()
	if err == nil {
		_, err = a.exec()
		err = prepareError(err)
	}
	for _, rows := range []*int64{&batch.Forgotten, &batch.Expired} {
		if err == nil {
			var tag pgconn.CommandTag
			tag, err = a.exec()
			*rows = tag.RowsAffected()
		}
	}
	if err = a.close(err); err != nil {
		return SweepResult{}, err
	}
	return batch, nil
}

// archiveBatch lets go of exactly the records that the hook was shown: another
// one may fall due before the batch's end while the hook runs.
func (d *Deduper) archiveBatch(ctx context.Context, tx pgx.Tx, span sweepSpan, o SweepOptions, batch *SweepResult) error {
	if _, err := tx.Exec(ctx, d.sql.sweepPrepareArchive); err != nil {
		return prepareError(err)
	}
	records, err := d.sweepRecords(ctx, tx, span)
	if err != nil || len(records) == 0 {
		return err
	}
	if err := o.Archive(ctx, tx, records); err != nil {
		return fmt.Errorf("archiving: %w", err)
	}
	var scopes, tools, keys []string
	for _, r := range records {
		scopes, tools, keys = append(scopes, r.Scope), append(tools, r.Tool), append(keys, r.Key)
	}
	b := &pgx.Batch{}
	b.Queue(d.sql.sweepForgetArchived, scopes, tools, keys)
	b.Queue(d.sql.sweepExpireArchived, scopes, tools, keys)
	b.QueuedQueries[0].Exec(func(tag pgconn.CommandTag) error { batch.Forgotten = tag.RowsAffected(); return nil })
	b.QueuedQueries[1].Exec(func(tag pgconn.CommandTag) error { batch.Expired = tag.RowsAffected(); return nil })
	return tx.SendBatch(ctx, b).Close()
}

func (d *Deduper) sweepRecords(ctx context.Context, tx pgx.Tx, span sweepSpan) ([]SweptRecord, error) {
	rows, err := tx.Query(ctx, d.sql.sweepSelect, span.first, span.last)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (SweptRecord, error) {
		var r SweptRecord
		var fingerprint []byte
		var result *string
		err := row.Scan(&r.Scope, &r.Tool, &r.Key, &fingerprint, &r.Outcome, &result,
			&r.CreatedAt, &r.ExpiresAt, &r.ForgetAt, &r.Forgotten)
		copy(r.Fingerprint[:], fingerprint)
		if result != nil {
			r.Result = json.RawMessage(*result)
		}
		return r, err
	})
}
