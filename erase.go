package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Erase erases the answers of a scope, or of one tool in it if tool is not empty, as for a tenant
// that leaves. Their identities stay until they are forgotten: a late retry gets [ErrExpired],
// whatever its arguments, and runs nothing. A broken record stays [ErrBroken].
//
// Erase takes the records and effects that were written before it began, by the database's clock:
//
//   - A record loses its result, the digests of its arguments and its fingerprint.
//   - An effect outside the database loses these, its input, the provider's id and its note. A
//     look-up at the provider that is still due is not made.
//   - Earlier lines of the audit lose their reason. The reason may quote an error.
//
// Scope, tool, key and times remain. Hash a key that is personal data. A call that ends after Erase
// began leaves its record: stop the scope's calls before, or call Erase again. What is erased stays
// so, and an Erase that failed continues where it ended.
//
// The work is done in transactions of 1,000 rows, with pauses between them, so that calls go on
// meanwhile. A statement that begins after Erase returned cannot read an erased answer. A
// transaction at REPEATABLE READ that began before can. Postgres overwrites the erased bytes after
// a vacuum, in its own time; backups and standbys have their own copies.
//
// The statement that erases a record adds a line to the table tool_dedup_audit. If the table is
// missing, records are erased without a line, which the result counts. Erase needs UPDATE on the
// column reason of that table, unless the scope has no earlier lines.
//
// If an effect outside the database has no answer yet, nothing is erased: the error is an
// ErrInFlight. `dedup parked` lists those that an operator must resolve, and `dedup parked --open`
// the others, which end by themselves.
//
// Other errors are ErrInvalid, ErrSchema and errors of the database. The result then counts the
// rows that were erased before. It does not count a batch whose reply to COMMIT was lost, if the
// error came before Erase could repeat that batch. When Erase repeats it and the last row is erased
// already, the whole batch counts.
func (d *Deduper) Erase(ctx context.Context, scope, tool string, opts ChangeOptions) (result EraseResult, err error) {
	if err := d.checkErase(ctx, scope, tool, opts); err != nil {
		return result, err
	}
	result, err = d.erase(ctx, scope, tool, opts.operator())
	if err == nil || result != (EraseResult{}) {
		id := table.Identity{Scope: scope, Tool: tool}
		d.traceChange(ctx, ChangedData{CallData: CallData{Func: "Erase"}, Erased: result, Audited: result.Records > result.Unaudited}, id, opts)
	}
	if err == nil || errors.Is(err, ErrInFlight) {
		return result, err
	}
	if wire.SQLState(err) == wire.CodeInsufficientPrivilege { // the message names the table
		return result, fmt.Errorf("dedup: erasing: %w; the role needs SELECT and UPDATE on tool_dedup and tool_effect, and SELECT, INSERT and UPDATE (reason) on tool_dedup_audit", redact(err))
	}
	return result, fmt.Errorf("dedup: erasing: %w", d.withHint(err))
}

// unresolvedError counts the effects outside the database that keep Erase from erasing.
type unresolvedError struct{ parked, open int64 }

func (e *unresolvedError) Error() string {
	return fmt.Sprintf("dedup: nothing was erased, because effects outside the database have no answer: %d parked, %d open; resolve them first (see `dedup parked`, `dedup parked --open` and `dedup resolve`)",
		e.parked, e.open)
}

func (e *unresolvedError) Is(target error) bool { return target == ErrInFlight }

// checkErase checks the input of Erase.
func (d *Deduper) checkErase(ctx context.Context, scope, tool string, opts ChangeOptions) error {
	if err := d.outside(ctx); err != nil {
		return err
	}
	err := validateName("Scope", scope)
	if err == nil && tool != "" {
		err = validateName("Tool", tool)
	}
	if err == nil {
		err = opts.check()
	}
	if err == nil && !opts.CreatedAt.IsZero() {
		err = invalid("CreatedAt", "must be zero: Erase takes all records of the scope")
	}
	if err != nil {
		return annotate(table.Identity{Scope: scope, Tool: tool}, err)
	}
	return nil
}

// erase erases batch by batch. It rests between two batches, as a sweep does.
func (d *Deduper) erase(ctx context.Context, scope, tool string, by table.Operator) (total EraseResult, err error) {
	var e *table.Erasure
	err = d.retryBatch(ctx, func(conn *pgx.Conn) (err error) {
		if e, err = d.table().NewErasure(ctx, conn, scope, tool, by); err != nil {
			return err
		}
		parked, open, err := e.Unresolved(ctx, conn)
		if err == nil && parked+open > 0 {
			err = &unresolvedError{parked, open}
		}
		return err
	})
	var rows table.ErasedRows
	for more := err == nil; more; {
		began := time.Now()
		var n table.ErasedRows
		err = d.retryBatch(ctx, func(conn *pgx.Conn) (err error) {
			n, more, err = e.Next(ctx, conn, d.opts.CommitTimeout)
			return err
		})
		if err != nil {
			return total, err
		}
		rows.Add(n)
		total = EraseResult(rows)
		if more {
			if err := sleep(ctx, time.Duration(defaultSweepRest*float64(time.Since(began)))); err != nil {
				return total, err
			}
		}
	}
	return total, err
}

// retryBatch runs a batch on a connection of the pool. It retries transient faults and lost
// connections within Options.Retry, because erasing twice changes nothing.
func (d *Deduper) retryBatch(ctx context.Context, batch func(conn *pgx.Conn) error) error {
	for faults := 1; ; faults++ {
		err := d.onConn(ctx, func(on *wire.Conn) error { return batch(on.Conn()) })
		if err == nil || ctx.Err() != nil || !wire.IsTransient(err) && !wire.IsConnLost(err) || faults >= d.opts.Retry.MaxAttempts {
			return err
		}
		if ended := sleep(ctx, d.opts.Retry.pause(faults)); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}
