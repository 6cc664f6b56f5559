package dedupweb

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/inspect"
)

const (
	// span is what the overview shows, in so many parts.
	span  = 24 * time.Hour
	parts = 48
)

// overview is what the first page shows. Nothing in it is of one scope.
type overview struct {
	// Recorded says whether it is what Sweepers have written; else this process has counted
	// since Since.
	Recorded bool
	Since    time.Time
	Tools    []toolCounts
	Chart    *chart // nil where there is none
	InFlight int
	// Problem says why it could not be read.
	Problem string
}

// toolCounts are the calls of a tool, of which Executed ran their effect, Duplicates were
// answered from a record, and the rest came to nothing.
type toolCounts struct {
	Tool                        string
	Calls, Executed, Duplicates int64
	Took                        time.Duration
	Outcomes                    []outcomeCount
}

type outcomeCount struct {
	Outcome string
	Calls   int64
}

// Rate is the part of the calls that were duplicates.
func (t *toolCounts) Rate() float64 { return float64(t.Duplicates) / float64(max(t.Calls, 1)) }

// Average is what a call took.
func (t *toolCounts) Average() time.Duration { return t.Took / time.Duration(max(t.Calls, 1)) }

func (c *console) showOverview(v *visit) error {
	if !v.seesAll() {
		return v.page("overview", &overview{Problem: "Counts are of all scopes, and you see some."})
	}
	o, err := c.live.latest(v.r.Context(), c.live.every)
	if err != nil {
		return err
	}
	return v.page("overview", o)
}

func (c *console) readOverview(ctx context.Context) (*overview, error) {
	var recorded []inspect.Slice
	err := c.db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
		recorded, err = inspect.Slices(ctx, tx, c.db.Schema, span, parts)
		return err
	})
	if err != nil && !inspect.IsMissing(err) {
		return nil, err
	}
	stats := c.d.Stats()
	o := &overview{Recorded: len(recorded) > 0, Since: stats.Since, InFlight: len(stats.InFlight)}
	sums := sums{}
	for _, s := range recorded {
		sums.add(s.Tool, s.Outcome, s.Calls, time.Duration(s.Seconds*float64(time.Second)))
	}
	if o.Recorded {
		o.Chart = newChart(recorded)
	} else {
		for _, s := range stats.Calls {
			sums.add(s.Tool, string(s.Outcome), s.Calls, s.Duration)
		}
	}
	o.Tools = sums.sorted()
	return o, nil
}

// sums are the counts by tool.
type sums map[string]*toolCounts

func (s sums) add(tool, outcome string, calls int64, took time.Duration) {
	t := s[tool]
	if t == nil {
		t = &toolCounts{Tool: tool}
		s[tool] = t
	}
	t.Calls += calls
	t.Took += took
	switch {
	case inspect.IsExecuted(outcome):
		t.Executed += calls
	case inspect.IsDuplicate(outcome):
		t.Duplicates += calls
	}
	i := slices.IndexFunc(t.Outcomes, func(o outcomeCount) bool { return o.Outcome == outcome })
	if i < 0 {
		i, t.Outcomes = len(t.Outcomes), append(t.Outcomes, outcomeCount{Outcome: outcome})
	}
	t.Outcomes[i].Calls += calls
}

// sorted has the tools with the most calls first.
func (s sums) sorted() []toolCounts {
	var all []toolCounts
	for _, t := range s {
		slices.SortFunc(t.Outcomes, func(a, b outcomeCount) int { return strings.Compare(a.Outcome, b.Outcome) })
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b toolCounts) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Tool, b.Tool))
	})
	return all
}
