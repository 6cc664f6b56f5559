package table

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/wire"
)

// writes returns a statement that writes a record. The CASE detects an effect that ended its own
// transaction: in any other transaction now() differs, the outcome is NULL and the statement
// raises, so that the server skips the COMMIT behind it.
func writes(table, onConflict string) string {
	return fmt.Sprintf(`INSERT INTO %s AS held %s
VALUES ($1::text, $2::text, $3::text, $5::bytea, $6::bytea, CASE WHEN pg_catalog.now() = $4::timestamptz THEN $7::text END, $8::text, %s)%s
RETURNING %s`, table, insertColumns, times("$9", "$10"), onConflict, Micros("held.created_at"))
}

// writesMany is writes for many records.
func writesMany(table string) string {
	return fmt.Sprintf(`INSERT INTO %s AS held %s
SELECT r.scope, r.tool, r.key, r.fingerprint, r.arg_digests, CASE WHEN pg_catalog.now() = $1::timestamptz THEN 'done' END, r.result, %s
  FROM unnest($2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::text[], $8::bigint[], $9::bigint[]) AS r (scope, tool, key, fingerprint, arg_digests, result, keep, forget)
RETURNING scope, tool, key, %s`, table, insertColumns,
		times("(r.keep * interval '1 microsecond')", "(r.forget * interval '1 microsecond')"), Micros("created_at"))
}

// times returns SQL for the times of a record that is written now. It uses statement_timestamp(),
// because now() is the start of the transaction, and the record of a slow effect would begin with
// that age.
func times(keep, forget string) string {
	const now = "pg_catalog.statement_timestamp()"
	return fmt.Sprintf("%[1]s, %[1]s + %[2]s::interval, %[1]s + %[3]s::interval", now, keep, forget)
}

// insertColumns are the columns of a record.
const insertColumns = `(scope, tool, key, fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at)`

// Micros returns SQL for a time as microseconds of Unix time, and Hex for a bytea as hex digits.
// They are the same number and text whatever DateStyle and bytea_output the session has, even if
// pgx reads them as text. Citus refuses functions in RETURNING that are not IMMUTABLE, so Micros
// takes the time in UTC.
func Micros(time string) string {
	return "(extract(epoch FROM (" + time + ") AT TIME ZONE 'UTC') * 1000000)::bigint"
}

// NewRecord returns the record of an entry that is about to be sent, without the server's times.
//
// A record whose answer is not kept expires up to a second before it is created. That time is
// random, so that it identifies the attempt: if the reply to COMMIT is lost, only the attempt's own
// record proves that the answer in memory is the call's.
func NewRecord(e *Entry, outcome Outcome, result string) Record {
	r := Record{Fingerprint: e.Fingerprint, ArgDigests: e.ArgDigests, Outcome: outcome, Result: result, Tombstone: outcome == Broken, SentAt: time.Now(), keep: e.Keep}
	if e.Keep == 0 {
		r.Tombstone, r.keep = true, -time.Microsecond*time.Duration(1+rand.N(1_000_000))
	}
	return r
}

// QueueRecord queues the statement that writes the record, before the COMMIT, in the transaction
// that began at started. If it cannot write the record it raises, so that the server skips the
// COMMIT. It waits for a twin for up to limit.
func (t *Table) QueueRecord(p *wire.Pipeline, e *Entry, r *Record, started *time.Time, limit time.Duration) {
	var result any
	if text := r.stored(); text != nil {
		result = text
	}
	t.startLimit(p, limit)
	p.Queue(t.insert, &e.Scope, &e.Tool, &e.Key, started, &e.Fingerprint, &e.ArgDigests, (*string)(&r.Outcome), result, &r.keep, &e.Forget)
	t.endLimit(p, limit)
}

// QueueRecords is QueueRecord for the calls of a part.
func (t *Table) QueueRecords(p *wire.Pipeline, entries []*Entry, records []*Record, started *time.Time, limit time.Duration) {
	scopes, tools, keys := names(entries)
	n := len(entries)
	fingerprints, digests, results, keep, forget := make([][]byte, n), make([][]byte, n), make([]*string, n), make([]int64, n), make([]int64, n)
	for i, e := range entries {
		fingerprints[i], digests[i], results[i] = e.Fingerprint[:], e.ArgDigests, records[i].stored()
		keep[i], forget[i] = records[i].keep.Microseconds(), e.Forget.Microseconds()
	}
	t.startLimit(p, limit)
	p.Queue(t.many.insert, started, scopes, tools, keys, fingerprints, digests, results, keep, forget)
	t.endLimit(p, limit)
}

// stored returns the text for the column result, nil for NULL.
func (r *Record) stored() *string {
	if r.Tombstone {
		return nil
	}
	return &r.Result
}

// ReadRecord reads the reply to the statement that QueueRecord queued. If it leaves CreatedAt zero,
// the record was swallowed.
func ReadRecord(p *wire.Pipeline, e *Entry, r *Record) {
	if p.Scan(&r.CreatedAt) {
		r.written(p, e)
	}
}

// ReadRecords is ReadRecord for the calls of a part.
func ReadRecords(p *wire.Pipeline, entries []*Entry, records []*Record) {
	var id Identity
	var at time.Time
	next := 0 // rows most likely come in order
	p.Each([]any{&id.Scope, &id.Tool, &id.Key, &at}, func() error {
		for range entries {
			i := next % len(entries)
			if next++; entries[i].Identity == id {
				records[i].CreatedAt = at
				records[i].written(p, entries[i])
				break
			}
		}
		return nil
	})
}

// written sets the other times of a record that was just written. Postgres added the same ages to
// the same time.
func (r *Record) written(p *wire.Pipeline, e *Entry) {
	r.SeenAt, r.SentAt = r.CreatedAt, p.SentAt
	r.ExpiresAt, r.ForgetAt = r.CreatedAt.Add(r.keep), r.CreatedAt.Add(e.Forget)
}

// ErrSwallowed: the record's statement raised no error and wrote no row. A trigger or rule that
// causes this was added after the table was examined.
var ErrSwallowed = errors.New("dedup: a trigger or rule on tool_dedup swallowed the record")

// IsConflict reports whether err means that the record's statement conflicted with a row, or wrote
// nothing. It divides by zero if it finds another row in place of the claim that it completes.
func IsConflict(err error) bool {
	state := wire.SQLState(err)
	return state == wire.CodeUniqueViolation || state == wire.CodeDivisionByZero
}

// Tripped reports whether the tripwire in the record's statement was touched: it ran in another
// transaction than the one that was begun. The outcome is never NULL otherwise. The table is not
// asked for: it may be a partition. Citus leaves the column out when it passes a worker's error on;
// the message names it in every language.
func Tripped(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == wire.CodeNotNullViolation &&
		(server.ColumnName == "outcome" || server.ColumnName == "" && strings.Contains(server.Message, "outcome"))
}
