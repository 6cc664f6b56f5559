package scale

import (
	"io"

	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/table"
)

// Goal is a figure that is wanted, beside the one that was measured.
type Goal struct {
	What     string  `json:"what"`
	Wanted   float64 `json:"wanted"`
	AtLeast  bool    `json:"at_least"` // else at most
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
}

func atMost(what string, wanted, measured float64) Goal {
	return Goal{What: what, Wanted: wanted, Measured: measured, Met: measured <= wanted}
}

func atLeast(what string, wanted, measured float64) Goal {
	return Goal{What: what, Wanted: wanted, AtLeast: true, Measured: measured, Met: measured >= wanted}
}

func writeGoals(w io.Writer, goals []Goal) {
	if len(goals) == 0 {
		return
	}
	t := table.New("wanted", "", "measured", "")
	for _, g := range goals {
		bound, met := "at most", "met"
		if g.AtLeast {
			bound = "at least"
		}
		if !g.Met {
			met = "NOT MET"
		}
		t.Row(g.What, bound+" "+figure.Text(g.Wanted), figure.Text(g.Measured), met)
	}
	t.Write(w)
}
