package replay

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
)

//go:embed page.html.tmpl
var pageText string

// errNoNaive is the error of writePage for a result with one arm.
var errNoNaive = errors.New("the page compares two arms, and there is one")

// faultWords describes each kind of fault for readers of the page.
var faultWords = map[faultKind]string{
	lostAnswer:      "The server executes COMMIT; its answer never arrives.",
	cutBeforeCommit: "The connection breaks before COMMIT reaches the server.",
	terminate:       "The server process is terminated inside the tool’s transaction.",
	kill:            "The worker process is killed inside the effect or around COMMIT.",
	delayedCommit:   "COMMIT arrives late, when a retry already runs.",
	lostReply:       "The first answer to a later delivery is lost.",
	cutConnection:   "The connection to the worker is cut after the request, or in its answer.",
}

// bars is a row of a chart: a figure of both arms, and its bars in percent of the longest bar.
type bars struct {
	Label, Words           string
	Naive, Dedup           int
	NaiveWidth, DedupWidth int
}

// leastBar is the width of a small figure that is not zero.
const leastBar = 1

// chart scales rows to the longest bar.
func chart(rows []bars) []bars {
	most := 1
	for _, row := range rows {
		most = max(most, row.Naive, row.Dedup)
	}
	width := func(value int) int {
		if value == 0 {
			return 0
		}
		return max(leastBar, 100*value/most)
	}
	for i, row := range rows {
		rows[i].NaiveWidth, rows[i].DedupWidth = width(row.Naive), width(row.Dedup)
	}
	return rows
}

// writePage writes a page that compares the two arms of a result. The page needs no network and has
// no script.
func writePage(out io.Writer, r *result) error {
	if r.Naive == nil {
		return errNoNaive
	}
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"thousands": thousands,
		"base":      filepath.Base, // the folder may name a person
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("reading the page's template: %w", err)
	}
	var outcome, faults []bars
	for i, f := range r.outcome() {
		outcome = append(outcome, bars{Label: f.name, Naive: r.Naive.outcome()[i].value, Dedup: f.value})
	}
	for _, kind := range faultKinds {
		faults = append(faults, bars{Label: string(kind), Words: faultWords[kind], Naive: r.Naive.Faults[kind], Dedup: r.Faults[kind]})
	}
	type line struct{ Label, Naive, Dedup string }
	var work []line
	for i, row := range r.work() {
		work = append(work, line{row.Label, r.Naive.work()[i].Cell, row.Cell})
	}
	err = parsed.Execute(out, map[string]any{
		"Dedup": r, "Naive": r.Naive, "Outcome": chart(outcome), "Faults": chart(faults), "Work": work,
	})
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
