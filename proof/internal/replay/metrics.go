package replay

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// counts counts the calls of a tool, by the workers' answers to the driver or by their Prometheus
// pages.
type counts struct {
	// Calls were answered or failed. Of these, another call's record answered Replayed, the call's
	// own record answered Recovered, and Unknown may have had an effect.
	Calls     int `json:"calls"`
	Replayed  int `json:"replayed"`
	Recovered int `json:"recovered"`
	Unknown   int `json:"unknown"`
	// Waits counts the waits of calls for a twin.
	Waits int `json:"waits"`
}

// duplicateRate is the replayed share of the calls.
func (c counts) duplicateRate() float64 { return float64(c.Replayed) / float64(max(c.Calls, 1)) }

// countsOf returns the counts of an answer.
func countsOf(answer worker.Answer) counts {
	one := counts{Calls: 1, Waits: int(answer.Waits)}
	switch {
	case answer.Unknown:
		one.Unknown = 1
	case answer.Recovered:
		one.Recovered = 1
	case answer.Replayed:
		one.Replayed = 1
	}
	return one
}

// byTool has the counts by tool.
type byTool map[string]counts

func (b byTool) add(tool string, more counts) {
	c := b[tool]
	c.Calls += more.Calls
	c.Replayed += more.Replayed
	c.Recovered += more.Recovered
	c.Unknown += more.Unknown
	c.Waits += more.Waits
	b[tool] = c
}

// sum adds the counts of all tools.
func (b byTool) sum() counts {
	all := byTool{}
	for _, c := range b {
		all.add("", c)
	}
	return all[""]
}

// addPage adds the counts of a Prometheus page.
func (b byTool) addPage(page []byte) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return fmt.Errorf("reading a page of metrics: %w", err)
	}
	for _, calls := range families["dedup_calls_total"].GetMetric() {
		n := int(calls.GetCounter().GetValue())
		more := counts{Calls: n}
		switch label(calls, "dedup_outcome") {
		case "replayed", "refusal_replayed":
			more.Replayed = n
		case "recovered":
			more.Recovered = n
		case "unknown":
			more.Unknown = n
		}
		b.add(label(calls, "gen_ai_tool_name"), more)
	}
	for _, waits := range families["dedup_waits_total"].GetMetric() {
		b.add(label(waits, "gen_ai_tool_name"), counts{Waits: int(waits.GetCounter().GetValue())})
	}
	return nil
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// disagreements are the tools whose exported counts differ from the counts by answers. If a killed
// process lost some, only higher counts disagree.
func disagreements(seen, exported byTool, lost bool) (all []string) {
	both := maps.Clone(seen)
	maps.Copy(both, exported)
	for _, tool := range slices.Sorted(maps.Keys(both)) {
		s, e := seen[tool], exported[tool]
		below := e.Calls <= s.Calls && e.Replayed <= s.Replayed && e.Recovered <= s.Recovered && e.Unknown <= s.Unknown && e.Waits <= s.Waits
		if e != s && !(lost && below) {
			all = append(all, fmt.Sprintf("%s: exported %+v, seen %+v", tool, e, s))
		}
	}
	return all
}

// compareMetrics compares the workers' exported counts with their answers.
func (p *play) compareMetrics(ctx context.Context) (*metricsResult, error) {
	exported := byTool{}
	for _, place := range p.places {
		page, err := place.scrape(ctx)
		if err != nil {
			return nil, err
		}
		if err := exported.addPage(page); err != nil {
			return nil, err
		}
	}
	disagree := disagreements(p.seen, exported, p.result.Processes > workerCount)
	for _, line := range disagree {
		p.console.printf("metrics of %s", line)
	}
	return &metricsResult{Seen: p.seen.sum(), Exported: exported.sum(), Disagree: len(disagree)}, nil
}
