package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Kept is how long counts are kept.
const Kept = 14 * 24 * time.Hour

// IsExecuted reports whether calls with an outcome ran their effect.
func IsExecuted(outcome string) bool { return outcome == "executed" || outcome == "refused" }

// IsDuplicate reports whether calls with an outcome were answered from a record.
func IsDuplicate(outcome string) bool {
	return outcome == "replayed" || outcome == "refusal_replayed" || outcome == "recovered"
}

// Slice is what was recorded of one outcome of a tool in one of the equal parts of a time.
type Slice struct {
	// Part is 0 for the oldest one.
	Part          int
	Tool, Outcome string
	Calls         int64
	// Seconds is what all calls took, and Waited the part of it that they waited for twins.
	Seconds, Waited float64
}

// slicesSQL divides the time since $1 into parts.
func slicesSQL(table string, parts int) string {
	return fmt.Sprintf(`SELECT LEAST(%d, floor(%d * extract(epoch FROM at - (pg_catalog.now() - $1::interval)) / extract(epoch FROM $1::interval)))::int,
       tool, outcome, sum(calls)::bigint, sum(seconds), sum(waited)
  FROM %s
 WHERE at >= pg_catalog.now() - $1::interval
 GROUP BY 1, 2, 3
 ORDER BY 1, 2, 3`, parts-1, parts, table)
}

// Recorded reads what Sweepers have recorded, in so many parts of the time since.
func (db *Database) Recorded(ctx context.Context, since time.Duration, parts int) (all []Slice, err error) {
	err = db.read(ctx, func(r *reader) (err error) {
		all, err = collect(r, pgx.RowToStructByPos[Slice], slicesSQL(r.table("tool_dedup_stat"), parts), since)
		return err
	})
	return all, err
}

// Count is what was recorded of a tool, or of one outcome of it, as `dedup stats --json` writes it.
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

// Tally sums up what was recorded of each tool, or of each outcome of it. What has the most calls
// comes first.
func Tally(all []Slice, byOutcome bool) (counts []Count) {
	at := map[[2]string]int{}
	for _, s := range all {
		of := [2]string{s.Tool}
		if byOutcome {
			of[1] = s.Outcome
		}
		i, ok := at[of]
		if !ok {
			i = len(counts)
			at[of], counts = i, append(counts, Count{Tool: of[0], Outcome: of[1]})
		}
		counts[i].add(&s)
	}
	for i := range counts {
		counts[i].average()
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Tool, b.Tool), strings.Compare(a.Outcome, b.Outcome))
	})
	return counts
}

func (c *Count) add(s *Slice) {
	c.Calls += s.Calls
	c.Seconds += s.Seconds
	c.Waited += s.Waited
	switch {
	case IsExecuted(s.Outcome):
		c.Executed += s.Calls
	case IsDuplicate(s.Outcome):
		c.Duplicates += s.Calls
	}
}

func (c *Count) average() {
	if c.Calls > 0 {
		c.Rate = float64(c.Duplicates) / float64(c.Calls)
		c.Seconds /= float64(c.Calls)
		c.Waited /= float64(c.Calls)
	}
}
