// Package metrics has what workers counted of the calls of each tool: as the driver saw
// it in their answers, and as they export it to Prometheus.
package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Calls counts the calls of a tool.
type Calls struct {
	// Calls are those that were answered or failed, Replayed those of them that another
	// call's record answered, Recovered those that their own did, and Unknown those that may
	// have had an effect.
	Calls     int `json:"calls"`
	Replayed  int `json:"replayed"`
	Recovered int `json:"recovered"`
	Unknown   int `json:"unknown"`
	// Waits counts how often calls waited for a twin.
	Waits int `json:"waits"`
}

// DuplicateRate is the part of the calls that were replayed.
func (c Calls) DuplicateRate() float64 { return float64(c.Replayed) / float64(max(c.Calls, 1)) }

// ByTool are the counts by tool.
type ByTool map[string]Calls

// Add adds calls of a tool.
func (b ByTool) Add(tool string, more Calls) {
	c := b[tool]
	c.Calls += more.Calls
	c.Replayed += more.Replayed
	c.Recovered += more.Recovered
	c.Unknown += more.Unknown
	c.Waits += more.Waits
	b[tool] = c
}

// Sum is that of all tools.
func (b ByTool) Sum() Calls {
	all := ByTool{}
	for _, c := range b {
		all.Add("", c)
	}
	return all[""]
}

// AddPage adds what a page for Prometheus says.
func (b ByTool) AddPage(page []byte) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return fmt.Errorf("reading a page of metrics: %w", err)
	}
	for _, calls := range families["dedup_calls_total"].GetMetric() {
		n := int(calls.GetCounter().GetValue())
		more := Calls{Calls: n}
		switch label(calls, "dedup_outcome") {
		case "replayed", "refusal_replayed":
			more.Replayed = n
		case "recovered":
			more.Recovered = n
		case "unknown":
			more.Unknown = n
		}
		b.Add(label(calls, "gen_ai_tool_name"), more)
	}
	for _, waits := range families["dedup_waits_total"].GetMetric() {
		b.Add(label(waits, "gen_ai_tool_name"), Calls{Waits: int(waits.GetCounter().GetValue())})
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

// Disagreements are the tools whose exported counts are not those that were seen. Where some
// were lost with a process, fewer are right, and more are not.
func Disagreements(seen, exported ByTool, lost bool) (all []string) {
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
