package chart

import (
	_ "embed" // for the template
	"fmt"
	"html/template"
	"strings"
)

// picture is a chart with everything placed.
type picture struct {
	Title, Subtitle string
	Height          int
	Lines           []line
	Bars            []rect
	Paths           []curve
	Dots            []dot
	Texts           []text
}

type line struct {
	Class          string
	X1, Y1, X2, Y2 float64
}

type rect struct {
	Class               string
	X, Y, Width, Height float64
}

type curve struct{ Class, D string }

type dot struct {
	Class string
	X, Y  float64
}

type text struct {
	Class string
	X, Y  float64
	Text  string
}

//go:embed picture.svg.tmpl
var pictureText string

var pictureTemplate = template.Must(template.New("picture").Parse(pictureText))

// Width and what follows are for the template. The card's line is drawn half
// outside and half inside of its edge.
func (picture) Width() int        { return width }
func (picture) Margin() int       { return margin }
func (picture) CardWidth() int    { return width - 1 }
func (p picture) CardHeight() int { return p.Height - 1 }

func (p picture) svg() string {
	var b strings.Builder
	// It can fail only if the template asks for what a picture does not have.
	if err := pictureTemplate.Execute(&b, p); err != nil {
		panic(err)
	}
	return b.String()
}

func (p *picture) text(class string, x, y float64, s string) {
	if s != "" {
		p.Texts = append(p.Texts, text{class, tenth(x), tenth(y), s})
	}
}

func (p *picture) line(class string, x1, y1, x2, y2 float64) {
	p.Lines = append(p.Lines, line{class, tenth(x1), tenth(y1), tenth(x2), tenth(y2)})
}

// tickX marks a value of a horizontal axis.
func (p *picture) tickX(x, top, bottom float64, label string) {
	p.line("grid", x, top, x, bottom)
	p.text("middle", x, bottom+17, label)
}

// legend writes the names of series in a row, each behind its colour.
func (p *picture) legend(names []string, y float64) {
	x := float64(margin)
	for i, name := range names {
		p.Bars = append(p.Bars, rect{Class: colour(i), X: tenth(x), Y: y + 1, Width: 11, Height: 11})
		p.text("", x+17, y+11, name)
		x += 17 + textWidth(name) + 18
	}
}

// colour is the class of a series.
func colour(series int) string { return fmt.Sprintf("s%d", series%palette) }
