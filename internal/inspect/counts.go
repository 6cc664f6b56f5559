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

// HasRun reports whether calls with an outcome ran their effect.
func HasRun(outcome string) bool { return outcome == "executed" || outcome == "refused" }

// IsDuplicate reports whether calls with an outcome were answered from a record.
func IsDuplicate(outcome string) bool {
	return outcome == "replayed" || outcome == "refusal_replayed" || outcome == "recovered"
}

// Slice has the counts of one outcome of a tool in one part of a span of time.
type Slice struct {
	// Part is 0 for the oldest part.
	Part          int
	Tool, Outcome string
	Calls         int64
	// Seconds is the total duration of the calls. Waited is the part of it that they waited for
	// twins.
	Seconds, Waited float64
}

// slicesOf divides the time from since ago until now into parts.
func slicesOf(since time.Duration, parts int) query {
	return query{fmt.Sprintf(`SELECT LEAST(%d, floor(%d * extract(epoch FROM at - (pg_catalog.now() - @since::interval)) / extract(epoch FROM @since::interval)))::int,
       tool, outcome, sum(calls)::bigint, sum(seconds), sum(waited)
  FROM {stat}
 WHERE at >= pg_catalog.now() - @since::interval
 GROUP BY 1, 2, 3
 ORDER BY 1, 2, 3`, parts-1, parts), pgx.NamedArgs{"since": since}}
}

// Recorded reads the counts that Sweepers have written, in equal parts of the time since.
func (db *Database) Recorded(ctx context.Context, since time.Duration, parts int) (all []Slice, err error) {
	err = db.read(ctx, func(r *reader) (err error) {
		all, err = collect[Slice](r, slicesOf(since, parts))
		return err
	})
	return all, err
}

// Count has the counts of a tool, or of one outcome of it. `dedup stats --json` writes it.
type Count struct {
	Tool    string `json:"tool"`
	Outcome string `json:"outcome,omitempty"`
	// Calls is the number of calls. Ran of them ran their effect, with a result or a refusal.
	// Duplicates were answered from a record. The rest did neither.
	Calls      int64   `json:"calls"`
	Ran        int64   `json:"ran"`
	Duplicates int64   `json:"duplicates"`
	Rate       float64 `json:"duplicate_rate"`
	// Seconds is the average duration of a call. Waited is the part of it that the call waited for
	// a twin.
	Seconds float64 `json:"seconds"`
	Waited  float64 `json:"waited"`
}

// Tally sums up counts by tool, or by tool and outcome. Most calls come first.
func Tally(all []Slice, byOutcome bool) (counts []Count) {
	sums := map[[2]string]*Count{}
	for _, s := range all {
		of := Count{Tool: s.Tool}
		if byOutcome {
			of.Outcome = s.Outcome
		}
		c := sums[[2]string{of.Tool, of.Outcome}]
		if c == nil {
			c = &of
			sums[[2]string{of.Tool, of.Outcome}] = c
		}
		c.add(&s)
	}
	for _, c := range sums {
		if c.Calls > 0 {
			c.Rate = float64(c.Duplicates) / float64(c.Calls)
			c.Seconds /= float64(c.Calls)
			c.Waited /= float64(c.Calls)
		}
		counts = append(counts, *c)
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
	case HasRun(s.Outcome):
		c.Ran += s.Calls
	case IsDuplicate(s.Outcome):
		c.Duplicates += s.Calls
	}
}
