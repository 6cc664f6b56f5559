package chart

import (
	"math"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

const (
	barHeight = 14
	barGap    = 3
	groupGap  = 16
	valueRoom = 58 // beside the longest bar
	leastBar  = 1.5
	noteRoom  = 26
)

// SVG draws the bars.
func (c Bars) SVG() string {
	p := picture{Title: c.Title, Subtitle: c.Subtitle}
	y := float64(headRoom)
	if len(c.Series) > 1 {
		p.legend(c.Series, y)
		y += legendRoom
	}
	if c.Reference != nil {
		y += 16 // for its label
	}
	top := y
	x := c.xScale()
	base := x.at(x.from)
	if c.Log {
		base = x.at(c.Reference.Value)
	}
	for i, group := range c.Groups {
		if i > 0 {
			y += groupGap
		}
		y = p.group(group, x, base, y)
	}
	bottom := y + 8
	for _, tick := range c.ticks(x) {
		p.tickX(x.at(tick), top-4, bottom, tickText(tick))
	}
	if c.Reference != nil {
		at := x.at(c.Reference.Value)
		p.line("reference", at, top-8, at, bottom)
		p.text("middle", at, top-13, c.Reference.Label)
	}
	p.text("middle", (x.start+x.end)/2, bottom+38, c.XLabel)
	p.Height = int(bottom) + axisRoom
	if c.Note != "" {
		p.text("", margin, bottom+62, c.Note)
		p.Height += noteRoom
	}
	return p.svg()
}

// xScale leaves room for the groups' labels at the left and for values beside
// the bars.
func (c Bars) xScale() scale {
	labels := 0.0
	least, most := math.Inf(1), 0.0
	for _, group := range c.Groups {
		labels = max(labels, largeness*textWidth(group.Label))
		for _, v := range group.Values {
			if v >= 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	if c.Reference != nil {
		least, most = min(least, c.Reference.Value), max(most, c.Reference.Value)
	}
	s := scale{start: tenth(margin + labels + 14), end: width - margin - valueRoom, to: most}
	if c.Log {
		s.log, s.from = true, least
		s.start += valueRoom
	}
	return s
}

func (c Bars) ticks(x scale) []float64 {
	if c.Log {
		return logTicks(x.from, x.to)
	}
	ticks := roundTicks(x.to, 5)
	if ticks[len(ticks)-1] > x.to {
		ticks = ticks[:len(ticks)-1]
	}
	return ticks
}

// group draws a group's bars below y and returns where they end.
func (p *picture) group(g Group, x scale, base, y float64) float64 {
	tall := float64(len(g.Values)*(barHeight+barGap) - barGap)
	labels := x.start - 14
	if x.log {
		labels -= valueRoom
	}
	p.text("label end", labels, y+tall/2+textRise, g.Label)
	for series, v := range g.Values {
		if v < 0 {
			p.text("", base+6, y+barHeight/2+textRise, "not measured")
		} else {
			p.bar(series, x, base, v, y)
		}
		y += barHeight + barGap
	}
	return y - barGap
}

// bar draws a bar with its value at the end.
func (p *picture) bar(series int, x scale, base, v, y float64) {
	end := x.at(v)
	left, wide := min(base, end), math.Abs(end-base)
	if wide < leastBar {
		wide = leastBar
	}
	p.Bars = append(p.Bars, rect{Class: colour(series), X: left, Y: y, Width: tenth(wide), Height: barHeight})
	if end < base {
		p.text("value end", left-6, y+barHeight/2+textRise, figure.Text(v))
		return
	}
	p.text("value", left+wide+6, y+barHeight/2+textRise, figure.Text(v))
}
