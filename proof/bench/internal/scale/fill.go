package scale

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// KeyKind is the place of a new record in the primary key's index.
type KeyKind string

const (
	OrderedKeys KeyKind = "ordered" // as of dedup.NewKey: beside the last one
	RandomKeys  KeyKind = "random"  // as of any hash: anywhere
)

// timed is the length of the key's part that orders it.
const timed = len("ts1_000000000_")

func (k KeyKind) newKey() string {
	key := dedup.NewKey()
	if k == RandomKeys {
		return key[timed:]
	}
	return key
}

// calls makes calls with new keys.
func calls(session *way.Session, keys KeyKind) measure.Op {
	return func(ctx context.Context, _ int) (int, error) {
		return 1, session.Call(ctx, []string{keys.newKey()}) //dedupvet:ignore a measured call is made once
	}
}

// warmCalls of a client prepare its statements.
const warmCalls = 5

// filling describes the records of a filled table.
type filling struct {
	keys    KeyKind
	records int
	// The records were created one after the other between from and to ago.
	from, to time.Duration
	// The retention of results and then of tombstones. The table's clock decides which records are
	// due.
	result, tombstone time.Duration
	// swept records have lost their result: they are tombstones.
	swept bool
}

// fresh returns records that came within the last day: none of them is due.
func fresh(keys KeyKind, records int) filling {
	return filling{keys: keys, records: records, from: 20 * time.Hour, to: time.Second, result: day, tombstone: 30 * day}
}

// filled makes a site of dedup.Do with a filled table, in the state after autovacuum and a
// checkpoint.
func filled(ctx context.Context, b *bed.Bed, f filling) (*bed.Site, error) {
	site, err := b.Site(ctx, way.Named("do"))
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := site.Seed(ctx, 1); err != nil {
		return nil, err
	}
	for _, sql := range []string{"CREATE TABLE specimen AS SELECT * FROM tool_dedup", "ANALYZE specimen", "TRUNCATE tool_dedup"} {
		if _, err := site.Pool.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("taking the record to copy: %w", err)
		}
	}
	if err := f.into(ctx, site); err != nil {
		return nil, err
	}
	if _, err := site.Pool.Exec(ctx, "VACUUM (ANALYZE) tool_dedup"); err != nil {
		return nil, fmt.Errorf("vacuuming: %w", err)
	}
	b.Say("filled %s records with %s keys in %s", measure.Text(f.records), f.keys, time.Since(began).Round(time.Millisecond))
	return site, b.Checkpoint(ctx)
}

// Records are written in chunks, each sorted by key. One by one, random keys would visit a cold
// page each, which takes hours. One single chunk would pack the index's pages tighter than random
// inserts do. After forty chunks they are as full as after random inserts.
const (
	fillChunks = 40
	leastChunk = 1_000
	mostChunk  = 500_000
)

// fillSQL writes records as the library does. All have the specimen's fingerprint and digests:
// these are neither indexed nor compressed, so only their length matters. Their keys have the form
// of dedup.NewKey. %s is the part that orders them.
const fillSQL = `
INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, arg_digests, result, created_at, expires_at, forget_at)
SELECT scope, tool,
       (CASE WHEN $6 THEN %s ELSE '' END
        || rtrim(translate(encode(uuid_send(gen_random_uuid()), 'base64'), '+/', '-_'), '=')) COLLATE "C" AS key,
       fingerprint, outcome,
       CASE WHEN NOT $7 THEN arg_digests END,
       CASE WHEN NOT $7 THEN result END,
       born, born + $8::interval, born + $8::interval + $9::interval
  FROM specimen
 CROSS JOIN generate_series($1::int, $2::int - 1) AS i
 CROSS JOIN LATERAL (SELECT $3::timestamptz - $4::interval + i * $5::interval AS born) AS birth
 CROSS JOIN LATERAL (SELECT floor(date_part('epoch', born) * 1000)::bigint AS ms) AS stamp
 ORDER BY key`

// timeSQL writes ms as dedup.TimedKey does: nine digits of five bits.
func timeSQL() string {
	digits := make([]string, 9)
	for i := range digits {
		digits[i] = fmt.Sprintf("substr('0123456789abcdefghijklmnopqrstuv', 1 + (ms >> %d & 31)::int, 1)", 5*(8-i))
	}
	return "'ts1_' || " + strings.Join(digits, " || ") + " || '_'"
}

// into fills the table.
func (f filling) into(ctx context.Context, site *bed.Site) error {
	var now time.Time
	if err := site.Pool.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return err
	}
	each := (f.from - f.to) / time.Duration(f.records)
	size := min(max(f.records/fillChunks, leastChunk), mostChunk)
	for done := 0; done < f.records; done += size {
		_, err := site.Pool.Exec(ctx, fmt.Sprintf(fillSQL, timeSQL()), done, min(done+size, f.records), now, f.from, each,
			f.keys == OrderedKeys, f.swept, f.result, f.tombstone)
		if err != nil {
			return fmt.Errorf("writing records: %w", err)
		}
	}
	return nil
}

// Sizes are the sizes of a table of records on disk, in bytes.
type Sizes struct {
	Records    int64 `json:"records"`
	Heap       int64 `json:"heap_bytes"`
	PrimaryKey int64 `json:"primary_key_bytes"`
	DueIndex   int64 `json:"due_index_bytes"`
	Total      int64 `json:"total_bytes"`
}

// sizesOf also counts the records.
func sizesOf(ctx context.Context, site *bed.Site) (s Sizes, err error) {
	err = site.Pool.QueryRow(ctx, `
		SELECT count(*), pg_relation_size('tool_dedup'), pg_relation_size('tool_dedup_pkey'), pg_relation_size('tool_dedup_due')
		  FROM tool_dedup`).Scan(&s.Records, &s.Heap, &s.PrimaryKey, &s.DueIndex)
	s.Total = s.Heap + s.PrimaryKey + s.DueIndex
	return s, err
}
