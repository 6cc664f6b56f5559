package scale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// filling says what records to fill a table with.
type filling struct {
	keys    KeyKind
	records int
	// The records were created one after the other between from and to ago.
	from, to time.Duration
	// How long they are kept; the table's clock decides what is due.
	retention dedup.Retention
	// tenants share the records evenly; 0 leaves them to the one of ticketCall.
	tenants int
	// swept records have lost their result: they are tombstones.
	swept bool
}

// Records are made and copied in chunks, each sorted by key. Random keys one by
// one would visit a cold page each, which takes hours. But one chunk would leave
// the index's pages packed as no random inserts leave them; after forty they are
// as full as they would be.
const (
	fillChunks = 40
	leastChunk = 1_000
	mostChunk  = 500_000
)

var recordColumns = []string{"scope", "tool", "key", "fingerprint", "arg_digests", "outcome", "result", "created_at", "expires_at", "forget_at"}

// into fills the schema's table and leaves it as autovacuum would.
func (f filling) into(ctx context.Context, t *tool, schema string) error {
	if err := f.copyInto(ctx, t, schema); err != nil {
		return err
	}
	return settle(ctx, t.pool, pgx.Identifier{schema, "tool_dedup"})
}

// copyInto fills the table by COPY, with the rows that the library would have
// written.
func (f filling) copyInto(ctx context.Context, t *tool, schema string) error {
	rec, err := t.specimen(ctx, schema)
	if err != nil {
		return fmt.Errorf("making the record to copy: %w", err)
	}
	if f.swept {
		rec.argDigests, rec.result = nil, nil
	}
	table := pgx.Identifier{schema, "tool_dedup"}
	size := min(max(f.records/fillChunks, leastChunk), mostChunk)
	for done := 0; done < f.records; done += size {
		chunk := f.chunk(rec.now, done, min(done+size, f.records))
		_, err := t.pool.CopyFrom(ctx, table, recordColumns, pgx.CopyFromSlice(len(chunk), func(i int) ([]any, error) {
			born := chunk[i].born
			scope := rec.scope
			if f.tenants > 0 {
				scope = tenant((done + i) % f.tenants)
			}
			expires := born.Add(f.retention.Result)
			return []any{
				scope, rec.tool, chunk[i].key, rec.fingerprint, rec.argDigests, rec.outcome, rec.result,
				born, expires, expires.Add(f.retention.Tombstone),
			}, nil
		}))
		if err != nil {
			return fmt.Errorf("copying records: %w", err)
		}
	}
	return nil
}

// settle does at once what autovacuum and a checkpoint would do in the middle of
// the measurement.
func settle(ctx context.Context, pool *pgxpool.Pool, table pgx.Identifier) error {
	for _, statement := range []string{"VACUUM (ANALYZE) " + table.Sanitize(), "CHECKPOINT"} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// keyed is what the records of a filling differ in.
type keyed struct {
	key  string
	born time.Time
}

// chunk makes the records from index from up to index to.
func (f filling) chunk(now time.Time, from, to int) []keyed {
	chunk := make([]keyed, 0, to-from)
	first, span := now.Add(-f.from), float64(f.from-f.to)
	for i := from; i < to; i++ {
		born := first.Add(time.Duration(span * float64(i) / float64(f.records))).Truncate(time.Microsecond)
		chunk = append(chunk, keyed{f.keys.newKey(born), born})
	}
	slices.SortFunc(chunk, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	return chunk
}

// specimen is a record of the library's own, and the database's time. All copies
// carry its fingerprint and digests: neither is indexed or compressed, so only
// their length matters.
type specimen struct {
	scope, tool, outcome    string
	fingerprint, argDigests []byte
	result                  *string
	now                     time.Time
}

// specimen makes a call and reads its record in a transaction that is rolled
// back.
func (t *tool) specimen(ctx context.Context, schema string) (rec specimen, err error) {
	tx, err := t.pool.Begin(ctx)
	if err != nil {
		return rec, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()

	call := ticketCall(dedup.NewKey())
	_, err = dedup.DoTx(ctx, t.d, tx, call, func(context.Context, pgx.Tx) (ticket, error) {
		return ticket{ID: 1234, Title: title}, nil
	})
	if err != nil {
		return rec, err
	}
	err = tx.QueryRow(ctx, `
		SELECT scope, tool, outcome, fingerprint, arg_digests, result, clock_timestamp()
		  FROM `+pgx.Identifier{schema, "tool_dedup"}.Sanitize()+`
		 WHERE scope = $1 AND tool = $2 AND key = $3`, call.Scope, call.Tool, call.Key).
		Scan(&rec.scope, &rec.tool, &rec.outcome, &rec.fingerprint, &rec.argDigests, &rec.result, &rec.now)
	return rec, err
}
