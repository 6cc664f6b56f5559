package chart_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/chart"
)

var update = flag.Bool("update", false, "write the golden files anew")

func ratios(log bool) chart.Bars {
	return chart.Bars{
		Title:     "Calls a second, against the bare transaction",
		Subtitle:  "1 client; each way measured in the same rounds as the transaction alone",
		XLabel:    "ratio; more is better",
		Series:    []string{"loopback", "0.5 ms each way"},
		Reference: &chart.Reference{Value: 1, Label: "plain transaction"},
		Groups: []chart.Group{
			{"dedup.Do, first call", []float64{0.82, 0.98}},
			{"dedup.Do, replay", []float64{2.7, 1.6}},
			{"textbook pattern", []float64{0.66, 0.61}},
			{"River <unique job>", []float64{0.45, -1}},
			{"DBOS & its pools", []float64{0.16, 0.23}},
		},
		Log:  log,
		Note: "dedup.DoBatch is not drawn: 12 to 108 times.",
	}
}

func size() chart.Lines {
	points := func(ys ...float64) (points []chart.Point) {
		for i, x := range []float64{1e4, 1e5, 1e6, 5e6, 2e7} {
			points = append(points, chart.Point{X: x, Y: ys[i]})
		}
		return points
	}
	return chart.Lines{
		Title:     "Cost of a call against the size of its table",
		Subtitle:  "p50 of a first call, divided by that on the smallest table in the same rounds",
		XLabel:    "records in the table",
		YLabel:    "ratio",
		LogX:      true,
		Reference: &chart.Reference{Value: 1, Label: "no slower"},
		Series: []chart.Series{
			{"ordered keys, 1 client", points(1, 1.01, 1.02, 1.04, 1.05)},
			{"random keys, 1 client", points(1, 1.03, 1.1, 1.21, 1.4)},
			{"ordered keys, 16 clients", points(1, 1, 1.01, 1.03, 1.04)},
		},
	}
}

func throughput() chart.Lines {
	points := func(ys ...float64) (points []chart.Point) {
		for i, x := range []float64{1, 2, 4, 8, 16} {
			points = append(points, chart.Point{X: x, Y: ys[i]})
		}
		return points
	}
	return chart.Lines{
		Title:    "Calls a second against clients",
		Subtitle: "first calls on loopback",
		XLabel:   "clients", YLabel: "calls a second", LogX: true,
		Series: []chart.Series{
			{"plain transaction", points(640, 1180, 2100, 3650, 5200)},
			{"dedup.Do", points(590, 1010, 1740, 2800, 3900)},
			{"DBOS", points(110, 190, 330, 480, 690)},
		},
	}
}

// logarithmic has a log scale both ways.
func logarithmic() chart.Lines {
	c := throughput()
	c.LogY = true
	return c
}

func TestGolden(t *testing.T) {
	t.Parallel()

	for name, svg := range map[string]string{
		"bars":       ratios(false).SVG(),
		"bars_log":   ratios(true).SVG(),
		"size":       size().SVG(),
		"throughput": throughput().SVG(),
		"log":        logarithmic().SVG(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", name+".svg")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(svg), 0o644))
			}
			golden, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(golden), svg, "if this is meant, run the test with -update and look at the chart")
		})
	}
}

// The charts are read by XML parsers: an entity of HTML or an open element would
// show an error in place of the chart.
func TestWellFormed(t *testing.T) {
	t.Parallel()

	for _, svg := range []string{ratios(false).SVG(), ratios(true).SVG(), size().SVG(), throughput().SVG()} {
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
		}
		require.Contains(t, svg, `role="img"`)
		require.Contains(t, svg, "<title>")
	}
	require.Contains(t, ratios(false).SVG(), "River &lt;unique job&gt;")
}

func TestNothingToDraw(t *testing.T) {
	t.Parallel()

	for _, svg := range []string{
		chart.Bars{Title: "none"}.SVG(),
		chart.Lines{Title: "none"}.SVG(),
		chart.Lines{Title: "none", LogX: true, LogY: true}.SVG(),
		chart.Lines{Title: "none", LogX: true, Series: []chart.Series{{Name: "no points"}}}.SVG(),
	} {
		require.Contains(t, svg, "<title>none</title>")
		require.NotContains(t, svg, "NaN")
		require.NotContains(t, svg, "Inf")
	}
}
