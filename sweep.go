package dedup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// SweepOptions configure [Deduper.Sweep]. Nil and zero fields mean the defaults.
type SweepOptions struct {
	// BatchSize is the number of records of one transaction. Default: 250, at most 100,000. Records
	// that fall due in the same microsecond as the last one are included. A smaller batch holds its
	// rows for a shorter time.
	BatchSize int
	// Rest is the pause between two batches, as a multiple of the time that the previous batch
	// took, Archive included. It leaves calls their share of the server, and more of it if the
	// server is busy. Default: 0.5, at most 100; negative: no pause.
	Rest float64
	// MaxBatches ends the sweep after this number of transactions that dropped something, and after
	// ten times as many in all: calls may hold the records of a batch, and a trigger may keep them.
	// Default: 0, which ends the sweep when nothing is due.
	MaxBatches int
	// Archive is called for every batch inside its transaction, before anything is dropped. An
	// error ends the sweep and keeps the batch. Writes through tx are committed with the deletion.
	// If that commit fails, Archive may be called again for the same records. Archive must not end
	// the transaction, and a Do inside it is refused, as in an effect. Default: none; batches are
	// then committed with synchronous_commit off, because a batch that a crash of the server undoes
	// is swept again.
	//
	// The batch's rows are locked until the commit. A call that reuses an identity of the batch is
	// retried meanwhile, within Options.Retry, so Archive must be quick. The server ends the
	// transaction if Archive does not use tx for longer than Options.IdleTimeout.
	Archive func(ctx context.Context, tx pgx.Tx, batch []SweptRecord) error
}

// SweptRecord is a record that the sweep is about to delete, or whose result it is about to drop.
type SweptRecord struct {
	Scope, Tool, Key string
	Fingerprint      Fingerprint
	// Outcome is "done", "refused" or "broken".
	Outcome string
	// Result is the recorded JSON text, nil if an earlier sweep dropped it or it was never kept.
	Result                         json.RawMessage
	CreatedAt, ExpiresAt, ForgetAt time.Time
	// Forgotten is true if the record is deleted. It is false if only its result is dropped and a
	// tombstone remains.
	Forgotten bool
}

const (
	defaultSweepBatch = 250
	maxSweepBatch     = 100_000
	defaultSweepRest  = 0.5
	maxSweepRest      = 100
	// emptyBatches times MaxBatches is the number of batches that ends a sweep.
	emptyBatches = 10
)

// Sweep drops expired results and deletes forgotten records, oldest first, in bounded transactions,
// until nothing is due. All ages are by the database's clock. The sweep goes forward in time: it
// leaves a record with an earlier time that is committed meanwhile to the next sweep, and so a
// record that a call holds.
//
// Every instance may run it at once: one sweeps, and the others return at once with Skipped. On
// servers other than plain PostgreSQL they share the rows. Sweeping does not change the answers of
// calls, which depend on time alone, except that an [ErrKeyReused] no longer names the arguments of
// a swept record.
//
// Without an Archive hook a batch reaches the server in one piece, COMMIT included, so a sweeper
// that hangs or vanishes leaves no transaction open. On Citus it leaves one for
// Options.IdleTimeout. Without the hook a sweep ends without an error if the table is locked for
// longer than a second.
//
// If Sweep returns an error, the result counts the batches that were committed before. Cancelling
// ctx rolls the current batch back.
func (d *Deduper) Sweep(ctx context.Context, opts *SweepOptions) (SweepResult, error) {
	if err := d.outside(ctx); err != nil {
		return SweepResult{}, err
	}
	o, err := opts.resolve()
	if err != nil {
		return SweepResult{}, err
	}
	return d.sweep(ctx, o, nil)
}

func (o *SweepOptions) resolve() (SweepOptions, error) {
	var opts SweepOptions
	if o != nil {
		opts = *o
	}
	setDefault(&opts.BatchSize, defaultSweepBatch)
	if opts.BatchSize < 1 || opts.BatchSize > maxSweepBatch {
		return opts, invalidOption("BatchSize", "must be between 1 and %d", maxSweepBatch)
	}
	if opts.MaxBatches < 0 {
		return opts, invalidOption("MaxBatches", "must not be negative")
	}
	setDefault(&opts.Rest, defaultSweepRest)
	if !(opts.Rest <= maxSweepRest) { // nor NaN
		return opts, invalidOption("Rest", "must be at most %d", maxSweepRest)
	}
	return opts, nil
}

// sweep sweeps and reports the sweep to the tracer, with statsErr.
func (d *Deduper) sweep(ctx context.Context, o SweepOptions, statsErr error) (SweepResult, error) {
	start := time.Now()
	total, err := d.sweepBatches(ctx, o)
	if err != nil {
		err = fmt.Errorf("dedup: sweeping: %w", d.withHint(err))
	}
	if trace := d.opts.Tracer; trace != nil {
		trace.TraceEvent(ctx, SweptData{SweepResult: total, Duration: time.Since(start), Err: err, StatsErr: statsErr})
	}
	return total, err
}

// sweepBatches sweeps batch by batch. Each batch begins behind the previous one: index entries of
// deleted rows stay until a vacuum, and every batch would read those of all previous ones.
func (d *Deduper) sweepBatches(ctx context.Context, o SweepOptions) (total SweepResult, err error) {
	due, dropping := dueSpans{after: table.Beginning, size: o.BatchSize}, 0
	for {
		began := time.Now()
		batch, err := d.sweepBatch(ctx, o, &due)
		total.Skipped = batch.Skipped
		switch {
		case o.Archive == nil && table.GaveUp(err):
			return total, nil // the table is locked
		case err != nil || len(due.spans) == 0 || batch.Skipped:
			return total, err
		}
		total.Expired += batch.Expired
		total.Forgotten += batch.Forgotten
		total.Batches++
		if batch.Expired+batch.Forgotten > 0 { // else calls hold all of its records
			dropping++
		}
		due.next()
		if due.ended() || o.MaxBatches > 0 && (dropping == o.MaxBatches || total.Batches >= o.MaxBatches*emptyBatches) {
			return total, nil
		}
		if rest := time.Duration(o.Rest * float64(time.Since(began))); rest > 0 { // no connection is held
			if err := sleep(ctx, rest); err != nil {
				return total, err
			}
		}
	}
}

// dueSpans are the next spans of a sweep: one, or one for each shard.
type dueSpans struct {
	spans []table.Span
	// last is true if nothing is due behind the spans.
	last bool
	// size is the number of records to find behind after.
	size  int
	after pgtype.Timestamptz
	// end is the latest end of the spans that were found last.
	end pgtype.Timestamptz
}

// find finds the next spans if there are none left.
func (s *dueSpans) find(ctx context.Context, t *table.Table, conn *pgx.Conn) (err error) {
	if len(s.spans) > 0 {
		return nil
	}
	s.spans, s.last, err = t.Due(ctx, conn, s.after, s.size)
	s.end = s.after
	for _, span := range s.spans {
		if s.end == table.Beginning || span.Last.Time.After(s.end.Time) {
			s.end = span.Last
		}
	}
	return err
}

// next removes the first span.
func (s *dueSpans) next() {
	if s.spans = s.spans[1:]; len(s.spans) == 0 {
		s.after = s.end
	}
}

// ended reports whether nothing else is due.
func (s *dueSpans) ended() bool { return s.last && len(s.spans) == 0 }

// sweepBatch drops all records of the next span. It finds the span outside the transaction, without
// holding locks.
func (d *Deduper) sweepBatch(ctx context.Context, o SweepOptions, due *dueSpans) (batch SweepResult, err error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return batch, err
	}
	defer d.release(ctx, conn) // rolls back, after a panic of the hook too
	if err := d.findEngine(ctx, conn.Conn()); err != nil {
		return batch, err
	}
	t := d.table()
	if err := due.find(ctx, t, conn.Conn()); err != nil || len(due.spans) == 0 {
		if table.GaveUp(err) { // the table is locked, as for Drop; the hook has not run
			err = nil
		}
		return batch, err
	}
	span := due.spans[0]
	if o.Archive == nil && !t.Profile.Spread {
		batch.Forgotten, batch.Expired, err = t.Drop(ctx, conn.Conn(), span)
	} else {
		err = wire.InTx(ctx, conn.Conn(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, d.opts.CommitTimeout, func(tx pgx.Tx) error {
			return d.dropHeld(ctx, tx, span, o, &batch)
		})
	}
	if errors.Is(err, table.ErrSweeping) {
		return SweepResult{Skipped: true}, nil
	}
	return batch, err
}

// dropHeld drops exactly the records that it locked and passed to Archive, even if Archive changes
// the slice.
func (d *Deduper) dropHeld(ctx context.Context, tx pgx.Tx, span table.Span, o SweepOptions, batch *SweepResult) error {
	t := d.table()
	if err := t.BeginSweep(ctx, tx, o.Archive != nil); err != nil {
		return err
	}
	records, err := d.sweepRecords(ctx, tx, span, o.Archive != nil)
	if err != nil || len(records) == 0 {
		return err
	}
	var scopes, tools, keys []string
	for _, r := range records {
		scopes, tools, keys = append(scopes, r.Scope), append(tools, r.Tool), append(keys, r.Key)
	}
	if o.Archive != nil {
		if err := archive(ctx, tx, o, records); err != nil {
			return fmt.Errorf("archiving: %w", err)
		}
	}
	batch.Forgotten, batch.Expired, err = t.DropHeld(ctx, tx, scopes, tools, keys)
	return err
}

// archive runs the hook on a guarded transaction, like an effect.
func archive(ctx context.Context, tx pgx.Tx, o SweepOptions, records []SweptRecord) error {
	var started int64 // a number, whose text no session's settings change
	if err := tx.QueryRow(ctx, "SELECT "+table.Micros("pg_catalog.now()")).Scan(&started); err != nil {
		return err
	}
	inner := guard.Enter(ctx, guard.Owner{}, tx)
	defer inner.Leave()
	err := inner.Check(ctx, time.UnixMicro(started), o.Archive(inner, inner.Tx(), records))
	if err == guard.ErrTxEnded {
		return &InvalidError{What: "option", Field: "Archive", Reason: "ended the sweep's transaction; return nil to commit it, an error to roll it back", Err: err}
	}
	return err
}

func (d *Deduper) sweepRecords(ctx context.Context, tx pgx.Tx, span table.Span, results bool) ([]SweptRecord, error) {
	rows, err := d.table().SelectDue(ctx, tx, span, results)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (SweptRecord, error) {
		var r SweptRecord
		var fingerprint []byte
		var result *string
		err := row.Scan(&r.Scope, &r.Tool, &r.Key, wire.Digits(&fingerprint), &r.Outcome, &result,
			wire.Times(&r.CreatedAt), wire.Times(&r.ExpiresAt), wire.Times(&r.ForgetAt), &r.Forgotten)
		copy(r.Fingerprint[:], fingerprint)
		if result != nil {
			r.Result = json.RawMessage(*result)
		}
		return r, err
	})
}
