package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

const (
	plotHeight = 250
	lineHeight = 16 // of the vertical axis' name, above the plot
	plotLeft   = margin + 44
	nameGap    = 16 // between two names at the ends of lines
)

// SVG draws the lines, each with its name and its last value at the end.
func (c Lines) SVG() string {
	p := picture{Title: c.Title, Subtitle: c.Subtitle}
	top, bottom := float64(headRoom+lineHeight+8), float64(headRoom+lineHeight+8+plotHeight)
	x, y := c.scales(top, bottom)

	ticks := roundTicks(y.to, 5)
	if y.log {
		ticks = logTicks(y.from, y.to)
	}
	for _, tick := range ticks {
		p.line("grid", plotLeft, y.at(tick), x.end, y.at(tick))
		p.text("end", plotLeft-8, y.at(tick)+textRise, tickText(tick))
	}
	p.text("", margin, top-14, c.YLabel)
	for _, tick := range c.xTicks() {
		p.line("grid", x.at(tick), bottom, x.at(tick), bottom+4)
		p.text("middle", x.at(tick), bottom+19, tickText(tick))
	}
	p.text("middle", (x.start+x.end)/2, bottom+38, c.XLabel)
	if c.Reference != nil {
		at := y.at(c.Reference.Value)
		p.line("reference", plotLeft, at, x.end, at)
		// Above the plot: lines that are compared with it run beside it.
		p.text("end", x.end, top-14, c.Reference.Label)
		sample := x.end - textWidth(c.Reference.Label) - 8
		p.line("reference", sample-24, top-14-textRise, sample, top-14-textRise)
	}

	for i, series := range c.Series {
		p.series(i, series, x, y)
	}
	p.names(c.Series, x, y, top, bottom)
	p.Height = int(bottom) + axisRoom
	return p.svg()
}

func (c Lines) scales(top, bottom float64) (x, y scale) {
	names := 0.0
	least, most := math.Inf(1), 0.0
	if c.Reference != nil {
		least, most = c.Reference.Value, c.Reference.Value
	}
	xs := c.xTicks()
	for _, series := range c.Series {
		names = max(names, boldness*textWidth(endText(series)))
		for _, point := range series.Points {
			least, most = min(least, point.Y), max(most, point.Y)
		}
	}
	ticks := roundTicks(most, 5)
	x = scale{start: plotLeft + 14, end: width - margin - names - 22, log: c.LogX}
	if len(xs) > 0 {
		x.from, x.to = xs[0], xs[len(xs)-1]
	}
	y = scale{from: 0, to: ticks[len(ticks)-1], start: bottom, end: top}
	if c.LogY && most > 0 {
		y.log = true
		y.from, y.to = math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most)))
	}
	return x, y
}

// xTicks are the values that were measured: there are few.
func (c Lines) xTicks() []float64 {
	var xs []float64
	for _, series := range c.Series {
		for _, point := range series.Points {
			xs = append(xs, point.X)
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

func (p *picture) series(i int, s Series, x, y scale) {
	var path strings.Builder
	for at, point := range s.Points {
		px, py := x.at(point.X), y.at(point.Y)
		verb := "L"
		if at == 0 {
			verb = "M"
		}
		fmt.Fprintf(&path, "%s%v %v", verb, px, py)
		p.Dots = append(p.Dots, dot{Class: colour(i), X: px, Y: py})
	}
	p.Paths = append(p.Paths, curve{Class: colour(i), D: path.String()})
}

// names writes the lines' names where they end, moved apart where lines end
// beside each other.
func (p *picture) names(all []Series, x, y scale, top, bottom float64) {
	type name struct {
		series int
		at     float64 // where the line ends
		y      float64 // where the name stands
	}
	var names []name
	for i, s := range all {
		if len(s.Points) > 0 {
			at := y.at(s.Points[len(s.Points)-1].Y)
			names = append(names, name{i, at, at})
		}
	}
	slices.SortStableFunc(names, func(a, b name) int { return cmp.Compare(a.at, b.at) })
	least := top
	for i := range names {
		names[i].y = max(names[i].y, least)
		least = names[i].y + nameGap
	}
	most := bottom
	for i := range slices.Backward(names) {
		names[i].y = min(names[i].y, most)
		most = names[i].y - nameGap
	}
	for _, n := range names {
		s := all[n.series]
		last := x.at(s.Points[len(s.Points)-1].X)
		p.line("leader "+colour(n.series), last+5, n.at, x.end+14, n.y)
		p.text("name "+colour(n.series), x.end+18, n.y+textRise, endText(s))
	}
}

func endText(s Series) string {
	if len(s.Points) == 0 {
		return s.Name
	}
	return figure.Text(s.Points[len(s.Points)-1].Y) + "  " + s.Name
}
