package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/internal/promtool"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// One recorded write of each tool is delivered again and again, as another session's, to two
// workers that are scraped. Each round is a minute of promtool's series. One tool's deliveries are
// repeated as in a storm. Repeats of the other tools stay below a twentieth. A fifth of all calls
// loses the answer to its COMMIT.
const (
	minutes    = 37
	stormSince = 4
	perMinute  = 2  // calls of a tool: an alert takes 20 in a quarter of an hour
	usual      = 26 // without a storm one call in so many is repeated
)

// TestAlertOfTheStormedTool requires that the alert on the duplicate rate fires for the stormed
// tool and for nothing else.
func TestAlertOfTheStormedTool(t *testing.T) {
	t.Parallel()
	rec, err := recording.Open(smallDir)
	require.NoError(t, err)
	db := pgtest.New(t)
	pool := db.Pool(t)
	require.NoError(t, ledger.Create(t.Context(), pool, rec))
	var places []*place
	for range 2 {
		p, err := newPlace(process.Command{Args: []string{"replay-worker"}, Stderr: t.Output()},
			worker.Task{DatabaseURL: db.URL, Name: "alert", Mode: worker.Dedup, Way: worker.Registry, Metrics: true, Tools: ledger.Tools(rec)})
		require.NoError(t, err)
		t.Cleanup(p.close)
		places = append(places, p)
	}

	writes := map[string]*recording.Call{} // by tool
	for _, session := range rec.Sessions {
		for i := range session.Calls {
			if call := &session.Calls[i]; call.Class == recording.Write {
				writes[call.Tool] = call
			}
		}
	}
	tools := slices.Sorted(maps.Keys(writes))
	require.Greater(t, len(tools), 3)
	stormed := tools[1]

	recovered := 0
	deliver := func(at int, call *recording.Call, session string, lost bool) {
		if lost {
			places[at].proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
		}
		answer, err := places[at].deliver(t.Context(), worker.Delivery{
			Session: session, Turn: call.Turn, ToolCallID: call.ToolCallID, Scope: "demo",
			Domain: call.Domain, Tool: call.Tool, Args: call.Arguments, Ref: ledger.Ref(call),
		})
		require.NoError(t, err)
		if answer.Recovered {
			recovered++
		}
		places[at].proxy.Reset()
	}
	made := map[string]int{}
	series := map[string][]string{}
	for minute := range minutes {
		for _, tool := range tools {
			for range perMinute {
				made[tool]++
				session := fmt.Sprintf("%s %d", tool, made[tool])
				deliver(0, writes[tool], session, made[tool]%5 == 0)
				if tool == stormed && minute >= stormSince || made[tool]%usual == 0 {
					deliver(1, writes[tool], session, false)
				}
			}
		}
		for i, p := range places {
			page, err := p.scrape(t.Context())
			require.NoError(t, err)
			sample(t, series, minute, page, fmt.Sprintf(`job="replay",instance="%d"`, i))
		}
	}
	require.Greater(t, recovered, len(tools)*perMinute*minutes/10)

	test, err := json.Marshal(ruleTest(t, series, []expected{
		{"16m", ""}, // pending
		{fmt.Sprintf("%dm", minutes-1), fmt.Sprintf(`ALERTS{alertname="DedupDuplicateRateHigh",alertstate="firing",gen_ai_tool_name=%q,job="replay",severity="warning"}`, stormed)},
	}))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "storm.test.yml"), test, 0o600))
	promtool.Run(t, dir, "test", "rules", "storm.test.yml")
}

// sample appends a page's counters and gauges to their series.
func sample(t *testing.T, series map[string][]string, minute int, page []byte, labels string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	require.NoError(t, err)
	for name, family := range families {
		for _, m := range family.Metric {
			full := labels
			for _, pair := range m.Label {
				full += fmt.Sprintf(",%s=%q", pair.GetName(), pair.GetValue())
			}
			full = name + "{" + full + "}"
			for len(series[full]) < minute { // the series begins later
				series[full] = append(series[full], "_")
			}
			switch {
			case m.Counter != nil:
				series[full] = append(series[full], fmt.Sprint(m.Counter.GetValue()))
			case m.Gauge != nil:
				series[full] = append(series[full], fmt.Sprint(m.Gauge.GetValue()))
			}
		}
	}
}

// expected is the alert series that fires at a time, or empty.
type expected struct{ at, fires string }

// ruleTest is a file of `promtool test rules`.
func ruleTest(t *testing.T, series map[string][]string, all []expected) any {
	t.Helper()
	rules, err := filepath.Abs("../../../deploy/prometheus/dedup.rules.yml")
	require.NoError(t, err)
	type object = map[string]any
	var input, queries []object
	for _, name := range slices.Sorted(maps.Keys(series)) {
		if values := series[name]; len(values) > 0 {
			input = append(input, object{"series": name, "values": strings.Join(values, " ")})
		}
	}
	for _, e := range all {
		samples := []object{}
		if e.fires != "" {
			samples = append(samples, object{"labels": e.fires, "value": 1})
		}
		queries = append(queries, object{"expr": `ALERTS{alertstate="firing"}`, "eval_time": e.at, "exp_samples": samples})
	}
	return object{
		"rule_files": []string{rules}, "evaluation_interval": "1m",
		"tests": []object{{"interval": "1m", "input_series": input, "promql_expr_test": queries}},
	}
}
