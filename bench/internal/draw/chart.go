package draw

import (
	"bytes"
	"fmt"
	"html"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

// The measures of all charts.
const (
	width      = 720
	lineHeight = 400 // of a chart of lines
	barHeight  = 14
	barGap     = 3
	margin     = 20
)

// A tint is a colour as it is drawn, for readers whose system is light, and the one
// that replaces it for those whose system is dark.
type tint struct{ light, dark string }

// RGBA implements color.Color.
func (t tint) RGBA() (r, g, b, a uint32) {
	v, _ := strconv.ParseUint(t.light[1:], 16, 32)
	part := func(shift int) uint32 { return uint32(v>>shift&0xff) * 0x101 }
	return part(16), part(8), part(0), 0xffff
}

var (
	card    = tint{"#FFFFFF", "#14161A"}
	ink     = tint{"#1D1F23", "#ECEEF1"}
	soft    = tint{"#DAD6CE", "#363B45"}
	colours = []tint{
		{"#0F7F74", "#3CC4B4"}, {"#D9622B", "#F08A52"}, {"#2F6FC4", "#6EA8F2"}, {"#8A4FB5", "#C08BE6"}, {"#6F7480", "#9AA1AD"},
	}
)

// bars are groups of horizontal bars, beside the line at 1.
type bars struct {
	title, subtitle, xLabel string
	series                  []string
	groups                  []group
}

// group has a bar for each of the series. A value that is missing is negative.
type group struct {
	label  string
	values []float64
}

func (b bars) svg() string {
	p := newPlot(b.title, b.subtitle)
	p.X.Label.Text, p.X.Min = b.xLabel, 0
	p.Add(&plotter.Grid{Vertical: p.X.LineStyle})
	style := p.Y.Tick.Label
	style.XAlign = text.XLeft
	for i, name := range b.series {
		offset := vg.Length(float64(len(b.series)-1)/2-float64(i)) * (barHeight + barGap)
		bar := &plotter.BarChart{Width: barHeight, Color: colours[i%len(colours)], Offset: offset, Horizontal: true}
		values := &plotter.Labels{Offset: vg.Point{X: 5, Y: offset}}
		for y, g := range b.groups {
			v, label := g.values[i], figure.Text(g.values[i])
			if v < 0 {
				v, label = 0, "not measured"
			}
			bar.Values = append(bar.Values, v)
			values.XYs = append(values.XYs, plotter.XY{X: v, Y: float64(y)})
			values.Labels, values.TextStyle = append(values.Labels, label), append(values.TextStyle, style)
		}
		p.Add(bar, values)
		p.Legend.Add(name, bar)
	}
	var names []string
	for _, g := range b.groups {
		names = append(names, g.label)
	}
	p.NominalY(names...)
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}} // the first group is on top
	one := &plotter.Line{XYs: plotter.XYs{{X: 1, Y: -0.6}, {X: 1, Y: float64(len(names)) - 0.4}}}
	one.Color, one.Width, one.Dashes = ink, 1, []vg.Length{4, 3}
	p.Add(one)
	p.Legend.Add("plain transaction", one)
	return render(p, vg.Length(len(names)*(len(b.series)+1)*(barHeight+barGap)+140))
}

// lines are series of points, joined, over a logarithmic scale.
type lines struct {
	title, subtitle, xLabel, yLabel string
	logY                            bool
	series                          []series
}

// series has its points in the order of X.
type series struct {
	name   string
	points plotter.XYs
}

func (l lines) svg() string {
	p := newPlot(l.title, l.subtitle)
	p.X.Label.Text, p.X.Scale = l.xLabel, plot.LogScale{}
	p.Y.Label.Text, p.Y.AutoRescale = l.yLabel, true
	if l.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else {
		p.Y.Min = 0
	}
	p.Add(&plotter.Grid{Horizontal: p.Y.LineStyle})
	xs := map[float64]bool{} // what was measured: there are few
	for i, s := range l.series {
		line, dots := &plotter.Line{XYs: s.points}, &plotter.Scatter{XYs: s.points}
		line.Color, line.Width = colours[i%len(colours)], 2
		dots.Color, dots.Radius, dots.Shape = line.Color, 3, draw.CircleGlyph{}
		p.Add(line, dots)
		p.Legend.Add(fmt.Sprintf("%s, at the end %s", s.name, figure.Text(s.points[len(s.points)-1].Y)), line, dots)
		for _, point := range s.points {
			xs[point.X] = true
		}
	}
	var ticks plot.ConstantTicks
	for _, x := range slices.Sorted(maps.Keys(xs)) {
		ticks = append(ticks, plot.Tick{Value: x, Label: figure.Thousands(int64(x))})
	}
	p.X.Tick.Marker = ticks
	return render(p, lineHeight)
}

func newPlot(title, subtitle string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Title.Padding = title+"\n"+subtitle, 12
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Color, style.Font.Variant = ink, "Sans"
	}
	p.X.Label.Padding, p.Y.Label.Padding, p.Legend.Padding = 6, 6, 3
	p.X.LineStyle.Color, p.Y.LineStyle.Color = soft, soft
	p.X.Tick.LineStyle.Color, p.Y.Tick.LineStyle.Color = soft, soft
	return p
}

// render draws the plot on a card of its own, so that it can be read wherever it is
// shown, and lets its colours follow the reader's choice of light or dark: a page that
// is dark while the reader's system is light shows a light card.
func render(p *plot.Plot, height vg.Length) string {
	canvas := vgsvg.New(width, height)
	all := draw.New(canvas)
	all.SetColor(card)
	all.Fill(all.Path())
	p.BackgroundColor = nil
	p.Draw(draw.Crop(all, margin, -margin, margin, -margin))
	var svg bytes.Buffer
	_, _ = canvas.WriteTo(&svg) // which cannot fail
	var light, dark string
	swaps := []string{"font-family:Liberation Sans", "font-family:Liberation Sans,Arial,Helvetica,sans-serif"}
	for i, t := range append([]tint{card, ink, soft}, colours...) {
		name := fmt.Sprintf("--c%d", i)
		light, dark = light+name+":"+t.light+";", dark+name+":"+t.dark+";"
		swaps = append(swaps, t.light, "var("+name+")")
	}
	title, _, _ := strings.Cut(p.Title.Text, "\n")
	const start = `xlink">` + "\n"
	drawn := strings.NewReplacer(swaps...).Replace(svg.String())
	return strings.Replace(drawn, start, fmt.Sprintf(`xlink" role="img">
<title>%s</title>
<style>svg{%s} @media (prefers-color-scheme:dark){svg{%s}}</style>
`, html.EscapeString(title), light, dark), 1)
}
