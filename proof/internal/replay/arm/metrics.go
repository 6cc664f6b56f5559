package arm

import (
	"context"

	"github.com/tooldedup/dedup/proof/internal/replay/metrics"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
	"github.com/tooldedup/dedup/proof/internal/replay/report"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// callOf is what an answer says of the calls of a tool. A process that ended has given none.
func callOf(answer worker.Answer) metrics.Calls {
	one := metrics.Calls{Calls: 1, Waits: int(answer.Waits)}
	switch {
	case answer.ID == 0:
		return metrics.Calls{}
	case answer.Unknown:
		one.Unknown = 1
	case answer.Recovered:
		one.Recovered = 1
	case answer.Replayed:
		one.Replayed = 1
	}
	return one
}

// metrics compares what the workers export with what they have answered.
func (r *run) metrics(ctx context.Context) (*report.Metrics, error) {
	pages, err := r.fleet.Scrape(ctx)
	if err != nil {
		return nil, err
	}
	exported := metrics.ByTool{}
	for _, page := range pages {
		if err := exported.AddPage(page); err != nil {
			return nil, err
		}
	}
	disagree := metrics.Disagreements(r.tally.seen, exported, r.fleet.Processes() > plan.Workers)
	for _, line := range disagree {
		r.Display.Printf("metrics of %s", line)
	}
	return &report.Metrics{Seen: r.tally.seen.Sum(), Exported: exported.Sum(), Disagree: len(disagree)}, nil
}
