package report

import "math"

// The measures of a bar chart, in units of its view box.
const (
	chartWidth = 720
	labelWidth = 150 // left of the bars
	valueWidth = 60  // right of the longest bar
	barHeight  = 15
	barGap     = 3
	rowGap     = 19
	leastBar   = 2 // so that one of thousands is seen
)

// chart is horizontal bars, two a row, with everything placed.
type chart struct {
	Title         string
	Width, Height int
	AxisX, AxisY  int
	Rows          []chartRow
}

type chartRow struct {
	Label  string
	LabelY int
	Bars   []chartBar
}

type chartBar struct {
	Arm          string // a class of the style sheet
	Value        int
	Y            int
	Width        float64
	TextX        float64
	TextY        int
	Left, Height int
}

func newRow(label string, naive, dedup int) chartRow {
	return chartRow{Label: label, Bars: []chartBar{{Arm: "naive", Value: naive}, {Arm: "dedup", Value: dedup}}}
}

// newChart places the rows below each other, on one scale.
func newChart(title string, rows []chartRow) chart {
	most := 1
	for _, row := range rows {
		for _, bar := range row.Bars {
			most = max(most, bar.Value)
		}
	}
	room := float64(chartWidth - labelWidth - valueWidth)
	y := 4
	for i := range rows {
		rows[i].LabelY = y + barHeight + barGap/2 + 4
		for j := range rows[i].Bars {
			bar := &rows[i].Bars[j]
			bar.Y, bar.Left, bar.Height = y, labelWidth, barHeight
			if bar.Value > 0 {
				bar.Width = max(leastBar, math.Round(room*float64(bar.Value)/float64(most)*10)/10)
			}
			bar.TextX = labelWidth + bar.Width + 7
			bar.TextY = y + barHeight - 3
			y += barHeight + barGap
		}
		y += rowGap - barGap
	}
	height := y - rowGap + 8
	return chart{Title: title, Width: chartWidth, Height: height, AxisX: labelWidth, AxisY: height, Rows: rows}
}

// LabelX is where the labels of the rows end.
func (chartBar) LabelX() int { return labelWidth - 12 }

// Zero says that the bar is the promise: nothing, with dedup.
func (b chartBar) Zero() bool { return b.Value == 0 && b.Arm == "dedup" }
