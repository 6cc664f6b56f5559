package scale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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

// into fills the tool's table and leaves it as autovacuum and a checkpoint would.
func (f filling) into(ctx context.Context, t *tool) error {
	if err := f.copyInto(ctx, t); err != nil {
		return err
	}
	for _, statement := range []string{"VACUUM (ANALYZE) " + t.records, "CHECKPOINT"} {
		if _, err := t.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

var recordColumns = []string{"key", "created_at", "expires_at", "forget_at", "result", "arg_digests", "scope", "tool", "fingerprint", "outcome"}

// copyInto fills the table by COPY, with the rows that the library would have
// written. All carry the specimen's fingerprint and digests: neither is indexed or
// compressed, so only their length matters.
func (f filling) copyInto(ctx context.Context, t *tool) error {
	specimen, err := t.specimen(ctx)
	if err != nil {
		return fmt.Errorf("making the record to copy: %w", err)
	}
	now := specimen[1].(time.Time)
	if f.swept {
		specimen[4], specimen[5] = nil, nil
	}
	table := pgx.Identifier{t.schema, "tool_dedup"}
	size := min(max(f.records/fillChunks, leastChunk), mostChunk)
	for done := 0; done < f.records; done += size {
		chunk := f.chunk(now, done, min(done+size, f.records))
		_, err := t.pool.CopyFrom(ctx, table, recordColumns, pgx.CopyFromSlice(len(chunk), func(i int) ([]any, error) {
			expires := chunk[i].born.Add(f.retention.Result)
			return slices.Concat([]any{chunk[i].key, chunk[i].born, expires, expires.Add(f.retention.Tombstone)}, specimen[4:]), nil
		}))
		if err != nil {
			return fmt.Errorf("copying records: %w", err)
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

// specimen returns the columns of a record of the library's own, whose transaction is
// rolled back.
func (t *tool) specimen(ctx context.Context) ([]any, error) {
	tx, err := t.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	call := ticketCall(dedup.NewKey())
	_, err = dedup.DoTx(ctx, t.d, tx, call, func(context.Context, pgx.Tx) (ticket, error) {
		return ticket{ID: 1234, Title: title}, nil
	})
	if err != nil {
		return nil, err
	}
	rows, _ := tx.Query(ctx, "SELECT "+strings.Join(recordColumns, ", ")+" FROM "+t.records+" WHERE key = $1", call.Key)
	return pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
}
