package report

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

//go:embed page.html.tmpl
var pageText string

// errNoNaive is returned by HTML for a result of one arm.
var errNoNaive = errors.New("the page compares two arms, and there is one")

// faultWords says what each kind of fault is, for readers of the page.
var faultWords = map[plan.Kind]string{
	plan.LostAnswer:      "The server executes COMMIT; its answer never arrives.",
	plan.CutBeforeCommit: "The connection breaks before COMMIT reaches the server.",
	plan.Terminate:       "The server process is terminated inside the tool’s transaction.",
	plan.Kill:            "The worker process is killed inside the effect or around COMMIT.",
	plan.DelayedCommit:   "COMMIT arrives late, when a retry already runs.",
	plan.LostReply:       "The first answer to a later delivery is lost.",
	plan.CutConnection:   "The connection to the worker is cut after the request, or in its answer.",
	plan.BetweenNodes:    "The connection between two nodes of a cluster is cut before a COMMIT, or in its answer.",
}

// page is what the template is given.
type page struct {
	Dedup, Naive *Result
	Outcome      chart
	Faults       chart
	Kinds        []kindWords
}

type kindWords struct {
	Kind  plan.Kind
	Words string
}

// HTML writes a page that compares the two arms of a result. It needs nothing
// but itself: no network, no scripts.
func HTML(out io.Writer, r *Result) error {
	if r.Naive == nil {
		return errNoNaive
	}
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"thousands": thousands, "seconds": seconds, "base": base,
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("reading the page's template: %w", err)
	}
	p := page{Dedup: r, Naive: r.Naive, Outcome: outcomeChart(r), Faults: faultsChart(r)}
	for _, kind := range plan.Faults() {
		p.Kinds = append(p.Kinds, kindWords{kind, faultWords[kind]})
	}
	if err := parsed.Execute(out, p); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

func outcomeChart(r *Result) chart {
	var rows []chartRow
	naive := r.Naive.figures()
	for i, figure := range r.figures() {
		rows = append(rows, newRow(figure.name, naive[i].value, figure.value))
	}
	return newChart("What went wrong, without dedup and with it", rows)
}

func faultsChart(r *Result) chart {
	var rows []chartRow
	for _, kind := range plan.Faults() {
		rows = append(rows, newRow(string(kind), r.Naive.Faults[kind], r.Faults[kind]))
	}
	return newChart("Faults applied, by kind", rows)
}

func seconds(r *Result) string { return fmt.Sprintf("%.1f s", r.Seconds) }

// base is the last part of a path: whose machine it was is nobody's business.
func base(path string) string {
	return path[strings.LastIndexAny(path, `/\`)+1:]
}
