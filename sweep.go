package dedup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SweepOptions configure [Deduper.Sweep]. Nil and zero mean the defaults.
type SweepOptions struct {
	// BatchSize is how many records one transaction takes. Default 1,000, at
	// most 100,000. Records that fall due in the same microsecond as the last
	// of a batch go with it.
	BatchSize int
	// MaxBatches ends the sweep after so many transactions. Default 0: when
	// nothing is due any more.
	MaxBatches int
	// Archive is called for every batch inside its transaction, before anything
	// is dropped: an error ends the sweep and leaves the batch as it is. What
	// it writes through tx is committed with the deletion. It may be called
	// again for the same records if that commit fails. Default none.
	Archive func(ctx context.Context, tx pgx.Tx, batch []SweptRecord) error
}

// SweptRecord is a record that is about to lose its result or to be deleted.
type SweptRecord struct {
	Scope, Tool, Key string
	Fingerprint      Fingerprint
	// Outcome is "done", "refused" or "broken".
	Outcome string
	// Result is the recorded JSON text, nil when it was dropped by an earlier
	// sweep.
	Result                         json.RawMessage
	CreatedAt, ExpiresAt, ForgetAt time.Time
	// Forgotten tells that the whole record goes; else only its result does and
	// a tombstone stays.
	Forgotten bool
}

// SweepResult says what a sweep did.
type SweepResult struct {
	// Expired counts records that lost their result and became tombstones,
	// Forgotten those that were deleted.
	Expired, Forgotten int64
	// Batches counts transactions that found something to do.
	Batches int
	// Skipped tells that another instance was sweeping, so that this one
	// stopped.
	Skipped bool
}

const (
	defaultSweepBatch = 1_000
	maxSweepBatch     = 100_000
)

// Sweep drops results that have expired and deletes records that may be
// forgotten, in bounded transactions, oldest first, until nothing is due. All
// ages are by the database's clock. It may run on every instance at once: one
// sweeps and the others return at once with Skipped (with ClaimFirst they take
// turns at the rows). It does not change what a call answers, which goes by time
// alone; only a KeyReusedError no longer names the arguments of a swept record.
//
// On an error the result tells what had been committed before. Cancelling ctx
// rolls the batch at hand back.
func (d *Deduper) Sweep(ctx context.Context, opts *SweepOptions) (SweepResult, error) {
	if err := d.usable(ctx); err != nil {
		return SweepResult{}, err
	}
	o, err := opts.resolve()
	if err != nil {
		return SweepResult{}, err
	}
	start := time.Now()
	var total SweepResult
	for o.MaxBatches == 0 || total.Batches < o.MaxBatches {
		var batch SweepResult
		batch, err = d.sweepBatch(ctx, o)
		total.Skipped = batch.Skipped
		if err != nil || batch.Batches == 0 {
			break
		}
		total.Expired += batch.Expired
		total.Forgotten += batch.Forgotten
		total.Batches++
		if batch.Expired+batch.Forgotten == 0 {
			break // others took them, or something on the table keeps them
		}
	}
	if err != nil {
		err = fmt.Errorf("dedup: sweeping: %w", d.explained(err))
	}
	data := SweptData{SweepResult: total, Duration: time.Since(start), Err: err}
	for _, t := range d.trace.swept {
		t.TraceSwept(ctx, data)
	}
	return total, err
}

func (o *SweepOptions) resolve() (SweepOptions, error) {
	var opts SweepOptions
	if o != nil {
		opts = *o
	}
	setDefault(&opts.BatchSize, defaultSweepBatch)
	if opts.BatchSize < 1 || opts.BatchSize > maxSweepBatch {
		return opts, &OptionsError{Option: "BatchSize", Reason: fmt.Sprintf("must be between 1 and %d", maxSweepBatch)}
	}
	if opts.MaxBatches < 0 {
		return opts, &OptionsError{Option: "MaxBatches", Reason: "must not be negative"}
	}
	return opts, nil
}

// sweepBatch finds the moment up to which a batch's records are due and lets
// go of all of them.
func (d *Deduper) sweepBatch(ctx context.Context, o SweepOptions) (batch SweepResult, err error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return batch, err
	}
	defer d.release(ctx, conn) // rolls back, after a panic of the hook too
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		boundary, err := d.sweepBoundary(ctx, tx, o.BatchSize, &batch)
		if err != nil || boundary == nil {
			return err
		}
		if o.Archive == nil {
			return letGo(ctx, tx, &batch, d.sql.sweepForget, d.sql.sweepExpire, *boundary)
		}
		return d.archiveBatch(ctx, tx, *boundary, o, &batch)
	})
	return batch, err
}

// archiveBatch lets go of exactly the records that the hook was shown: another
// one may fall due before the boundary while the hook runs.
func (d *Deduper) archiveBatch(ctx context.Context, tx pgx.Tx, boundary time.Time, o SweepOptions, batch *SweepResult) error {
	records, err := d.sweepRecords(ctx, tx, boundary)
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
	return letGo(ctx, tx, batch, d.sql.sweepForgetArchived, d.sql.sweepExpireArchived, scopes, tools, keys)
}

// sweepBoundary returns nil when nothing is due or somebody else is sweeping.
func (d *Deduper) sweepBoundary(ctx context.Context, tx pgx.Tx, size int, batch *SweepResult) (boundary *time.Time, err error) {
	b := &pgx.Batch{}
	if d.order.sweepLocked() {
		b.Queue(d.sql.sweepLock)
	}
	b.Queue(d.sql.sweepBoundary, size)
	br := tx.SendBatch(ctx, b)
	locked := true
	if d.order.sweepLocked() {
		err = br.QueryRow().Scan(&locked)
	}
	if err == nil {
		err = br.QueryRow().Scan(&boundary)
	}
	if err = closeBatch(br, err); err != nil || !locked {
		batch.Skipped = !locked
		return nil, err
	}
	return boundary, nil
}

func (d *Deduper) sweepRecords(ctx context.Context, tx pgx.Tx, boundary time.Time) ([]SweptRecord, error) {
	rows, err := tx.Query(ctx, d.sql.sweepSelect, boundary)
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

// letGo deletes what may be forgotten and turns the rest into tombstones.
func letGo(ctx context.Context, tx pgx.Tx, batch *SweepResult, forget, expire string, args ...any) error {
	b := &pgx.Batch{}
	b.Queue(forget, args...)
	b.Queue(expire, args...)
	br := tx.SendBatch(ctx, b)
	var forgotten, expired pgconn.CommandTag
	forgotten, err := br.Exec()
	if err == nil {
		expired, err = br.Exec()
	}
	batch.Forgotten, batch.Expired, batch.Batches = forgotten.RowsAffected(), expired.RowsAffected(), 1
	return closeBatch(br, err)
}

// closeBatch closes br and returns the first error there was.
func closeBatch(br pgx.BatchResults, err error) error {
	if closeErr := br.Close(); err == nil {
		err = closeErr
	}
	return err
}
