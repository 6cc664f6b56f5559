package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Kept is how long counts are kept.
const Kept = 14 * 24 * time.Hour

var (
	executed   = []string{"executed", "refused"}
	duplicates = []string{"replayed", "refusal_replayed", "recovered"}
)

// IsExecuted reports whether calls with an outcome ran their effect, and IsDuplicate whether
// they were answered from a record.
func IsExecuted(outcome string) bool  { return slices.Contains(executed, outcome) }
func IsDuplicate(outcome string) bool { return slices.Contains(duplicates, outcome) }

// Count is what was recorded of a tool, or of one outcome of it.
type Count struct {
	Tool    string `json:"tool"`
	Outcome string `json:"outcome,omitempty"`
	// Calls, of which Executed ran their effect, Duplicates were answered from a record, and
	// the rest came to nothing.
	Calls      int64   `json:"calls"`
	Executed   int64   `json:"executed"`
	Duplicates int64   `json:"duplicates"`
	Rate       float64 `json:"duplicate_rate"`
	// Seconds is what a call took on average, Waited the part of it that it waited for a twin.
	Seconds float64 `json:"seconds"`
	Waited  float64 `json:"waited"`
}

// recordedSQL sums up what was recorded since $1.
func recordedSQL(table string, byOutcome bool) string {
	columns, group := "tool, ''", "tool"
	if byOutcome {
		columns, group = "tool, outcome", "tool, outcome"
	}
	return fmt.Sprintf(`SELECT %s, sum(calls)::bigint,
       COALESCE(sum(calls) FILTER (WHERE outcome IN (%s)), 0)::bigint,
       COALESCE(sum(calls) FILTER (WHERE outcome IN (%s)), 0)::bigint,
       sum(seconds), sum(waited)
  FROM %s
 WHERE at >= pg_catalog.now() - $1::interval
 GROUP BY %s
 ORDER BY 3 DESC, 1, 2`, columns, quoted(executed), quoted(duplicates), table, group)
}

func quoted(outcomes []string) string { return "'" + strings.Join(outcomes, "', '") + "'" }

// Recorded reads what Sweepers have recorded, for each tool or each outcome of it.
func Recorded(ctx context.Context, tx pgx.Tx, schema string, since time.Duration, byOutcome bool) ([]Count, error) {
	return collect(ctx, tx, func(row pgx.CollectableRow) (c Count, err error) {
		err = row.Scan(&c.Tool, &c.Outcome, &c.Calls, &c.Executed, &c.Duplicates, &c.Seconds, &c.Waited)
		if err == nil && c.Calls > 0 {
			c.Rate = float64(c.Duplicates) / float64(c.Calls)
			c.Seconds /= float64(c.Calls)
			c.Waited /= float64(c.Calls)
		}
		return c, err
	}, recordedSQL(tableIn(schema, "tool_dedup_stat"), byOutcome), since)
}

// Slice is what was recorded of one outcome of a tool in one of the equal parts of a time.
type Slice struct {
	// Part is 0 for the oldest one.
	Part          int
	Tool, Outcome string
	Calls         int64
	Seconds       float64
}

// slicesSQL divides the time since $1 into parts.
func slicesSQL(table string, parts int) string {
	return fmt.Sprintf(`SELECT LEAST(%d, floor(%d * extract(epoch FROM at - (pg_catalog.now() - $1::interval)) / extract(epoch FROM $1::interval)))::int,
       tool, outcome, sum(calls)::bigint, sum(seconds)
  FROM %s
 WHERE at >= pg_catalog.now() - $1::interval
 GROUP BY 1, 2, 3
 ORDER BY 1, 2, 3`, parts-1, parts, table)
}

// Slices reads what Sweepers have recorded, in so many parts of the time since.
func Slices(ctx context.Context, tx pgx.Tx, schema string, since time.Duration, parts int) ([]Slice, error) {
	return collect(ctx, tx, pgx.RowToStructByPos[Slice], slicesSQL(tableIn(schema, "tool_dedup_stat"), parts), since)
}
