package scale

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// KeyKind is where in the primary key's index a new record falls.
type KeyKind string

const (
	OrderedKeys KeyKind = "ordered" // as of dedup.NewKey: beside the last one
	RandomKeys  KeyKind = "random"  // as of any hash: anywhere
)

// newKey returns a key of the kind that was made at the given time, in the form
// of dedup.NewKey, which makes its keys at the present only.
func (k KeyKind) newKey(at time.Time) string {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	key := base64.RawURLEncoding.EncodeToString(random)
	if k == RandomKeys {
		return key
	}
	timed, err := dedup.TimedKey(at, key) //dedupvet:ignore a measured call is made once
	if err != nil {
		panic(err) // at is a time of this century
	}
	return timed
}

// filling says what records to fill a table with.
type filling struct {
	keys    KeyKind
	records int
	// The records were created one after the other between from and to ago.
	from, to time.Duration
	// How long results are kept, and tombstones after them; the table's clock decides what is due.
	result, tombstone time.Duration
	// swept records have lost their result: they are tombstones.
	swept bool
}

const day = 24 * time.Hour

// fresh are records as they stand a day after the first came in: none of them is due.
func fresh(keys KeyKind, records int) filling {
	return filling{keys: keys, records: records, from: 20 * time.Hour, to: time.Second, result: day, tombstone: 30 * day}
}

// filled makes a site of dedup.Do with a filled table, as autovacuum and a checkpoint would leave it.
func (s stand) filled(ctx context.Context, f filling) (*bed.Site, error) {
	site, err := s.Site(ctx, way.Do())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	specimen, err := takeSpecimen(ctx, site)
	if err != nil {
		return nil, err
	}
	if err := f.into(ctx, site, specimen); err != nil {
		return nil, err
	}
	for _, statement := range []string{"VACUUM (ANALYZE) tool_dedup", "CHECKPOINT"} {
		if _, err := site.Pools[0].Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	s.say("filled %s records with %s keys in %s", measure.Text(f.records), f.keys, time.Since(began).Round(time.Millisecond))
	return site, nil
}

// recordColumns are those that differ between the records of a filling, the result and its digests,
// and what all have in common.
var recordColumns = []string{
	"key", "created_at", "expires_at", "forget_at", "result", "arg_digests", "scope", "tool", "fingerprint", "outcome",
}

// takeSpecimen makes a call, and takes the columns of its record out of the table.
func takeSpecimen(ctx context.Context, site *bed.Site) ([]any, error) {
	if err := site.Seed(ctx, 1); err != nil {
		return nil, err
	}
	made := site.Seeds[len(site.Seeds)-1]
	rows, _ := site.Pools[0].Query(ctx, "DELETE FROM tool_dedup WHERE key = $1 RETURNING "+strings.Join(recordColumns, ", "), made)
	specimen, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	if err != nil {
		return nil, fmt.Errorf("taking the record to copy: %w", err)
	}
	return specimen, nil
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

// into fills the table by COPY, with the rows that the library would have
// written. All carry the specimen's fingerprint and digests: neither is indexed or
// compressed, so only their length matters.
func (f filling) into(ctx context.Context, site *bed.Site, specimen []any) error {
	var now time.Time
	if err := site.Pools[0].QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return err
	}
	common := slices.Clone(specimen[4:])
	if f.swept {
		common[0], common[1] = nil, nil
	}
	size := min(max(f.records/fillChunks, leastChunk), mostChunk)
	for done := 0; done < f.records; done += size {
		chunk := f.chunk(now, done, min(done+size, f.records))
		rows := pgx.CopyFromSlice(len(chunk), func(i int) ([]any, error) {
			expires := chunk[i].born.Add(f.result)
			return slices.Concat([]any{chunk[i].key, chunk[i].born, expires, expires.Add(f.tombstone)}, common), nil
		})
		if _, err := site.Pools[0].CopyFrom(ctx, pgx.Identifier{"tool_dedup"}, recordColumns, rows); err != nil {
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

// Sizes are what a table of records takes on disk, in bytes.
type Sizes struct {
	Records    int64 `json:"records"`
	Heap       int64 `json:"heap_bytes"`
	PrimaryKey int64 `json:"primary_key_bytes"`
	DueIndex   int64 `json:"due_index_bytes"`
	Total      int64 `json:"total_bytes"`
}

// sizesOf also counts the records.
func sizesOf(ctx context.Context, site *bed.Site) (s Sizes, err error) {
	err = site.Pools[0].QueryRow(ctx, `
		SELECT count(*), pg_relation_size('tool_dedup'), pg_relation_size('tool_dedup_pkey'), pg_relation_size('tool_dedup_due')
		  FROM tool_dedup`).Scan(&s.Records, &s.Heap, &s.PrimaryKey, &s.DueIndex)
	s.Total = s.Heap + s.PrimaryKey + s.DueIndex
	return s, err
}

// calls makes calls with new keys.
func calls(session *way.Session, keys KeyKind) measure.Op {
	return func(ctx context.Context, _ int) (int, error) {
		return 1, session.Call(ctx, []string{keys.newKey(time.Now())}) //dedupvet:ignore a measured call is made once
	}
}

// warmCalls of a client prepare its statements.
const warmCalls = 5

// drive makes so many calls.
func drive(ctx context.Context, clients, n int, op measure.Op) error {
	_, err := measure.Load{Clients: clients, MinOps: n}.Run(ctx, op)
	return err
}
