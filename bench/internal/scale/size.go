package scale

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/bench/internal/size"
)

// Sizes are what a schema's table of records takes on disk, in bytes.
type Sizes struct {
	Records    int64 `json:"records"`
	Heap       int64 `json:"heap_bytes"`
	PrimaryKey int64 `json:"primary_key_bytes"`
	DueIndex   int64 `json:"due_index_bytes"`
	Total      int64 `json:"total_bytes"`
}

// measureSizes also counts the records.
func measureSizes(ctx context.Context, pool *pgxpool.Pool, schema string) (s Sizes, err error) {
	relations, err := size.Relations(ctx, pool)
	if err != nil {
		return s, err
	}
	part := map[string]*int64{"tool_dedup": &s.Heap, "tool_dedup_pkey": &s.PrimaryKey, "tool_dedup_due": &s.DueIndex}
	for _, r := range relations {
		if bytes := part[r.Name]; r.Schema == schema && bytes != nil {
			*bytes = r.Bytes
			s.Total += r.Bytes
		}
	}
	err = pool.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{schema, "tool_dedup"}.Sanitize()).Scan(&s.Records)
	return s, err
}

// each returns bytes a record; 0 where there are no records.
func (s Sizes) each(bytes int64) float64 {
	if s.Records == 0 {
		return 0
	}
	return float64(bytes) / float64(s.Records)
}
