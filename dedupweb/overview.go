package dedupweb

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/inspect"
)

// overview is what the first page shows. Nothing in it is of one scope.
type overview struct {
	Window window
	// Read is when it was read.
	Read time.Time
	// Recorded says whether it is what Sweepers have written; else this process has counted
	// since Since.
	Recorded bool
	Since    time.Time
	Total    toolCounts
	Tools    []toolCounts
	Chart    *chart // nil where there is none
	// Hidden is true where the visitor may not see counts.
	Hidden bool
}

// toolCounts are the calls of a tool, of which Executed ran their effect, Duplicates were
// answered from a record, and the rest came to nothing.
type toolCounts struct {
	Tool                        string
	Calls, Executed, Duplicates int64
	Took                        time.Duration
	Outcomes                    []outcomeCount
}

// outcomeCount counts one outcome. Link leads to the calls that had it, where there is a way.
type outcomeCount struct {
	Outcome, Link string
	Calls         int64
}

// Rate is the part of the calls that were duplicates.
func (t *toolCounts) Rate() float64 { return float64(t.Duplicates) / float64(max(t.Calls, 1)) }

// Others are the calls that came to nothing.
func (t *toolCounts) Others() int64 { return t.Calls - t.Executed - t.Duplicates }

// Average is what a call took.
func (t *toolCounts) Average() time.Duration { return t.Took / time.Duration(max(t.Calls, 1)) }

func (c *console) showOverview(v *visit) error {
	if !v.seesAll() {
		return v.page("overview", &overview{Hidden: true})
	}
	counts := c.counts[cmp.Or(v.r.FormValue("last"), usual)]
	if counts == nil {
		return fail(http.StatusBadRequest, "There is no such time to show.")
	}
	o, err := counts.latest(v.r.Context())
	if err != nil {
		return err
	}
	return v.page("overview", o)
}

func (c *console) readOverview(ctx context.Context, w window) (*overview, error) {
	var recorded []inspect.Slice
	err := c.db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
		recorded, err = inspect.Slices(ctx, tx, c.db.Schema, w.span, w.parts)
		return err
	})
	if err != nil && !inspect.IsMissing(err) {
		return nil, err
	}
	stats := c.d.Stats()
	o := &overview{Window: w, Read: time.Now(), Recorded: len(recorded) > 0, Since: stats.Since}
	sums := sums{}
	for _, s := range recorded {
		sums.add(s.Tool, s.Outcome, s.Calls, time.Duration(s.Seconds*float64(time.Second)))
	}
	if o.Recorded {
		o.Chart = newChart(w, recorded)
	} else {
		for _, s := range stats.Calls {
			sums.add(s.Tool, string(s.Outcome), s.Calls, s.Duration)
		}
	}
	o.Tools = sums.sorted()
	for _, t := range o.Tools {
		o.Total.Calls += t.Calls
		o.Total.Executed += t.Executed
		o.Total.Duplicates += t.Duplicates
	}
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
		i, t.Outcomes = len(t.Outcomes), append(t.Outcomes, outcomeCount{Outcome: outcome, Link: linkOf(tool, outcome)})
	}
	t.Outcomes[i].Calls += calls
}

// linkOf leads to the calls of a tool that had an outcome, as far as something is stored of them.
func linkOf(tool, outcome string) string {
	switch dedup.Outcome(outcome) {
	case dedup.OutcomeExecuted, dedup.OutcomeReplayed, dedup.OutcomeRecovered:
		return link("records", "tool", tool, "outcome", "done")
	case dedup.OutcomeRefused, dedup.OutcomeRefusalReplayed:
		return link("records", "tool", tool, "outcome", "refused")
	case dedup.OutcomeBroken:
		return "attention"
	case dedup.OutcomeInFlight:
		return "inflight"
	default:
		return ""
	}
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
