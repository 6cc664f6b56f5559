package oteldedup_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/promtool"
)

const (
	rulesFolder = "../deploy/prometheus"
	runbook     = "https://github.com/tooldedup/dedup/blob/main/docs/operations.md#"
)

// ruleFile is a file of rules in Prometheus's format.
type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert,omitempty"`
	Record      string            `yaml:"record,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

func alerts(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rulesFolder, "dedup.rules.yml"))
	require.NoError(t, err)
	var file ruleFile
	require.NoError(t, yaml.Unmarshal(text, &file))
	require.Len(t, file.Groups, 1)
	require.NotEmpty(t, file.Groups[0].Rules)
	return file.Groups[0].Rules
}

// TestAlertsFire fires the alerts on artificial series, as deploy/prometheus/dedup.test.yml
// expects.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	promtool.Run(t, rulesFolder, "check", "rules", "dedup.rules.yml")
	promtool.Run(t, rulesFolder, "test", "rules", "dedup.test.yml")
}

// TestAlerts checks that every alert has a severity, a test and a heading in the runbook, and uses
// exported metrics. The runbook names the critical ones.
func TestAlerts(t *testing.T) {
	t.Parallel()
	tests, err := os.ReadFile(filepath.Join(rulesFolder, "dedup.test.yml"))
	require.NoError(t, err)
	doc, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	var headings []string
	for _, match := range regexp.MustCompile(`(?m)^### (Dedup.*)$`).FindAllStringSubmatch(string(doc), -1) {
		headings = append(headings, match[1])
	}
	page := regexp.MustCompile(`(?s)\*\*Page a person\*\* for the critical ones: ([^.]+)\.`).FindStringSubmatch(string(doc))
	require.NotNil(t, page)
	var names, critical []string
	metrics := exported(t)
	for _, alert := range alerts(t) {
		if alert.Labels["severity"] == "critical" {
			critical = append(critical, alert.Alert)
		}
		require.Contains(t, []string{"warning", "critical"}, alert.Labels["severity"], alert.Alert)
		require.NotEmpty(t, alert.Annotations["summary"], alert.Alert)
		require.NotEmpty(t, alert.Annotations["description"], alert.Alert)
		require.Equal(t, runbook+strings.ToLower(alert.Alert), alert.Annotations["runbook_url"])
		names = append(names, alert.Alert)
		require.Regexp(t, `alertname: `+alert.Alert+`\n        exp_alerts:\n`, string(tests), "no test in which it fires")
		require.NoError(t, exprError(metrics, alert.Expr), alert.Alert)
	}
	require.ElementsMatch(t, names, headings, "the alerts, and their headings in docs/operations.md")
	require.ElementsMatch(t, critical, regexp.MustCompile(`Dedup\w+`).FindAllString(page[1], -1), "the critical alerts, and those that page a person in docs/operations.md")
}

// dashboard is the part of Grafana's model that is checked.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ UID string }
	FieldConfig struct {
		Defaults struct{ Unit string }
	}
	Targets []struct {
		Expr       string
		Datasource struct{ UID string }
	}
}

// TestDashboard checks that the dashboard shows exported metrics, in expressions that Prometheus
// can parse.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/grafana/dedup.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	metrics := exported(t)
	require.Contains(t, d.Templating.List, struct{ Name, Type string }{"datasource", "datasource"})

	var ids []int
	recorded := ruleFile{Groups: []ruleGroup{{Name: "dashboard"}}}
	for _, p := range d.Panels {
		require.NotContains(t, ids, p.ID, p.Title)
		ids = append(ids, p.ID)
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
			expr := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$tool", ".*").Replace(target.Expr)
			require.NotContains(t, expr, "$", p.Title)
			require.NoError(t, exprError(metrics, expr), p.Title)
			recorded.Groups[0].Rules = append(recorded.Groups[0].Rules, rule{Record: "dashboard:panel", Expr: expr})
		}
	}
	rules, err := yaml.Marshal(recorded)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dashboard.yml"), rules, 0o600))
	t.Run("Parses", func(t *testing.T) {
		t.Parallel()
		promtool.Run(t, dir, "check", "rules", "--lint=none", "dashboard.yml")
	})
}

// exported returns the labels of each metric in exportedNames, by the name in queries.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(exportedNames)
	require.NoError(t, err)
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		name, kind, labels := words[0], words[1], words[2:]
		// Prometheus adds two labels, and the SDK one if a limit is reached.
		labels = append(slices.Clone(labels), "job", "instance", "otel_metric_overflow")
		if kind != "histogram" {
			all[name] = labels
			continue
		}
		all[name+"_bucket"], all[name+"_sum"], all[name+"_count"] = append(slices.Clone(labels), "le"), labels, labels
	}
	return all
}

var (
	quoted     = regexp.MustCompile(`"[^"]*"`)
	span       = regexp.MustCompile(`\[[^]]*\]|offset \w+`)
	identifier = regexp.MustCompile(`[a-zA-Z_]\w*`)
	matched    = regexp.MustCompile(`(\w+)\s*(?:=|!=|=~|!~)\s*"([^"]*)"`)

	// language are the words of PromQL that the expressions use.
	language = strings.Fields("and by histogram_quantile increase max on or rate sum time unless")
)

// exprError returns nil if every word of an expression is a word of PromQL, an exported metric, or
// a label of each of its metrics, and its outcomes and steps are the library's.
func exprError(metrics map[string][]string, expr string) error {
	if one, others, found := strings.Cut(expr, "\nor "); found { // about other metrics
		return errors.Join(exprError(metrics, one), exprError(metrics, others))
	}
	var used, labels []string
	for _, word := range identifier.FindAllString(span.ReplaceAllString(quoted.ReplaceAllString(expr, ""), ""), -1) {
		switch {
		case slices.Contains(language, word):
		case metrics[word] != nil:
			used = append(used, word)
		default:
			labels = append(labels, word)
		}
	}
	if len(used) == 0 {
		return fmt.Errorf("no exported metric is in %s", expr)
	}
	for _, metric := range used {
		for _, label := range labels {
			if !slices.Contains(metrics[metric], label) {
				return fmt.Errorf("%s has no label %s in %s", metric, label, expr)
			}
		}
	}
	for _, match := range matched.FindAllStringSubmatch(expr, -1) {
		known, ok := values[match[1]]
		for _, value := range strings.Split(match[2], "|") {
			if ok && !slices.Contains(known, value) {
				return fmt.Errorf("%s is never %q in %s", match[1], value, expr)
			}
		}
	}
	return nil
}

// values are the label values that the expressions may use.
var values = map[string][]string{
	"dedup_outcome": {
		string(dedup.OutcomeExecuted), string(dedup.OutcomeReplayed), string(dedup.OutcomeRecovered),
		string(dedup.OutcomeRefused), string(dedup.OutcomeRefusalReplayed), string(dedup.OutcomeKeyReused),
		string(dedup.OutcomeExpired), string(dedup.OutcomeUnknown), string(dedup.OutcomeBroken), string(dedup.OutcomeSchema),
	},
	"dedup_external_step":  {string(external.EventParked), string(external.EventTwice)},
	"dedup_stuck_kind":     {"broken", "parked", "twice"},
	"otel_metric_overflow": {"true"},
}

// TestExprErrors gives exprError wrong expressions.
func TestExprErrors(t *testing.T) {
	t.Parallel()
	metrics := exported(t)
	require.NoError(t, exprError(metrics, `sum by (dedup_outcome) (rate(dedup_calls_total{job="a"}[5m] offset 1h))`))
	for wrong, what := range map[string]string{
		`dedup_call_total`:                             "no exported metric",
		`dedup_call_duration_seconds`:                  "no exported metric",
		`sum by (tool) (dedup_calls_total)`:            "no label tool",
		`sum by (dedup_outcome) (dedup_retries_total)`: "no label dedup_outcome",
		`summ(dedup_calls_total)`:                      "no label summ",
		`dedup_calls_total{dedup_outcome="unclear"}`:   `is never "unclear"`,
	} {
		require.ErrorContains(t, exprError(metrics, wrong), what)
	}
}
