package dedupweb

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/inspect"
)

// overview is the data of the first page. It includes all scopes.
type overview struct {
	Window window
	// Read is when the data was read.
	Read time.Time
	// Recorded is true if Sweepers wrote the counts. Otherwise this process counted them from
	// Since.
	Recorded bool
	Since    time.Time
	Total    inspect.Count
	Others   int64 // neither ran nor were duplicates
	Tools    []toolCounts
	Chart    *chart // nil if not Recorded
	// Hidden is true if the visitor may not see counts.
	Hidden bool
}

// toolCounts are the calls of a tool, and of each of its outcomes.
type toolCounts struct {
	inspect.Count
	Outcomes []inspect.Count
}

func (c *console) showOverview(v *visit) error {
	if !v.seesAll() {
		return v.page("overview", &overview{Hidden: true})
	}
	counts := c.counts[cmp.Or(v.r.FormValue("last"), defaultWindow)]
	if counts == nil {
		return fail(http.StatusBadRequest, "There is no such window.")
	}
	o, err := counts.latest(v.r.Context())
	if err != nil {
		return err
	}
	return v.page("overview", o)
}

func (c *console) readOverview(ctx context.Context, w window) (*overview, error) {
	counted, err := c.db.Recorded(ctx, w.span, w.parts)
	if err != nil && !inspect.IsMissing(err) {
		return nil, err
	}
	stats := c.d.Stats()
	o := &overview{Window: w, Read: time.Now(), Recorded: len(counted) > 0, Since: stats.Since}
	if o.Recorded {
		o.Chart = newChart(w, counted)
	} else {
		for _, s := range stats.Calls {
			counted = append(counted, inspect.Slice{Tool: s.Tool, Outcome: string(s.Outcome), Calls: s.Calls, Seconds: s.Duration.Seconds()})
		}
	}
	outcomes := inspect.Tally(counted, true)
	for _, t := range inspect.Tally(counted, false) {
		tool := toolCounts{Count: t}
		for _, of := range outcomes {
			if of.Tool == t.Tool {
				tool.Outcomes = append(tool.Outcomes, of)
			}
		}
		o.Tools = append(o.Tools, tool)
		o.Total.Calls += t.Calls
		o.Total.Ran += t.Ran
		o.Total.Duplicates += t.Duplicates
	}
	o.Others = o.Total.Calls - o.Total.Ran - o.Total.Duplicates
	o.Total.Rate = float64(o.Total.Duplicates) / float64(max(o.Total.Calls, 1))
	return o, nil
}

// outcomeLink returns the address of a page that lists a tool's calls with an outcome, empty if no
// page does.
func outcomeLink(tool, outcome string) string {
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
