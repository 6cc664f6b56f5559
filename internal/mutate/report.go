package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// tally counts the changes of one file, or of all.
type tally struct {
	Possible int `json:"possible"` // changes that the operators could make
	Sampled  int `json:"sampled"`
	Compiled int `json:"mutants"`
	Untried  int `json:"untried"` // for want of time
	Killed   int `json:"killed"`
	Survived int `json:"survived"`
}

func (t tally) percent() string {
	tried := t.Killed + t.Survived
	if tried == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(t.Killed)/float64(tried))
}

// summary is the last line of the output, as JSON.
type summary struct {
	Campaign string `json:"campaign"`
	Seed     uint64 `json:"seed"`
	tally
	Seconds float64  `json:"seconds"`
	Unsound []string `json:"unsound,omitempty"` // tests that fail with no change too, and were not counted
}

func (s *summary) print(w io.Writer, files []string, byFile map[string]*tally, fates []*fate) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "file\tpossible\tsampled\tmutants\tuntried\tkilled\tsurvived\tpercent\t")
	for _, name := range append(files, "all") {
		t := byFile[name]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n", name, t.Possible, t.Sampled, t.Compiled, t.Untried, t.Killed, t.Survived, t.percent())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, f := range fates {
		if f.tried && !f.caught {
			fmt.Fprintf(w, "survived #%d %s (%d tests)\n", f.id, f, f.tests)
		}
	}
	if len(s.Unsound) > 0 {
		fmt.Fprintln(w, "not counted, because they fail with no change too:", strings.Join(s.Unsound, " "))
	}
	return json.NewEncoder(w).Encode(s)
}
