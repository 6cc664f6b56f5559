package dedup

import (
	"context"
	"encoding/json"
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
// all of them.
func (d *Deduper) sweepBatch(ctx context.Context, o SweepOptions, after pgtype.Timestamptz) (span sweepSpan, batch SweepResult, err error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return span, batch, err
	}
	defer d.release(ctx, conn) // rolls back, after a panic of the hook too
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		var err error
		span, batch.Skipped, err = d.nextSpan(ctx, tx, after, o.BatchSize)
		if err != nil || span.records == 0 {
			return err
		}
		if o.Archive == nil {
			b := &pgx.Batch{}
			b.Queue(d.sql.sweepUnhurried)
			return letGo(ctx, tx, b, &batch, d.sql.sweepForget, d.sql.sweepExpire, span.first, span.last)
		}
		return d.archiveBatch(ctx, tx, span, o, &batch)
	})
	return span, batch, err
}

// archiveBatch lets go of exactly the records that the hook was shown: another
// one may fall due before the batch's end while the hook runs.
func (d *Deduper) archiveBatch(ctx context.Context, tx pgx.Tx, span sweepSpan, o SweepOptions, batch *SweepResult) error {
	records, err := d.sweepRecords(ctx, tx, span)
	if err != nil {
		return err
	}
	if err := o.Archive(ctx, tx, records); err != nil {
		return fmt.Errorf("archiving: %w", err)
	}
	var scopes, tools, keys []string
	for _, r := range records {
		scopes, tools, keys = append(scopes, r.Scope), append(tools, r.Tool), append(keys, r.Key)
	}
	return letGo(ctx, tx, &pgx.Batch{}, batch, d.sql.sweepForgetArchived, d.sql.sweepExpireArchived, scopes, tools, keys)
}

// nextSpan finds no records when nothing is due or somebody else is sweeping.
func (d *Deduper) nextSpan(ctx context.Context, tx pgx.Tx, after pgtype.Timestamptz, size int) (span sweepSpan, skipped bool, err error) {
	b := &pgx.Batch{}
	if d.order.sweepLocked() {
		b.Queue(d.sql.sweepLock)
	}
	b.Queue(d.sql.sweepSpan, after, size)
	br := tx.SendBatch(ctx, b)
	locked := true
	if d.order.sweepLocked() {
		err = br.QueryRow().Scan(&locked)
	}
	if err == nil {
		err = br.QueryRow().Scan(&span.first, &span.last, &span.records)
	}
	if err = closeBatch(br, err); err != nil || !locked {
		return sweepSpan{}, !locked, err
	}
	return span, false, nil
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

// letGo deletes what may be forgotten and turns the rest into tombstones, after
// the statements that b has already.
func letGo(ctx context.Context, tx pgx.Tx, b *pgx.Batch, batch *SweepResult, forget, expire string, args ...any) error {
	before := b.Len()
	b.Queue(forget, args...)
	b.Queue(expire, args...)
	br := tx.SendBatch(ctx, b)
	var err error
	var tags [2]pgconn.CommandTag
	for i := range b.Len() {
		var tag pgconn.CommandTag
		if tag, err = br.Exec(); err != nil {
			break
		}
		if i >= before {
			tags[i-before] = tag
		}
	}
	batch.Forgotten, batch.Expired = tags[0].RowsAffected(), tags[1].RowsAffected()
	return closeBatch(br, err)
}
