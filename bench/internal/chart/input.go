package chart

// Bars are groups of horizontal bars on one scale.
type Bars struct {
	Title    string
	Subtitle string // says what is drawn, in a line
	XLabel   string // of the values' axis
	Series   []string
	Groups   []Group
	// Reference, where it is set, is a value to compare with, marked by a line.
	Reference *Reference
	// Log draws on a logarithmic scale, on which a bar goes from the reference
	// to its value: to the right where it is more, to the left where it is less.
	// It takes a Reference, and values above 0 only.
	Log bool
	// Note stands below: what the bars do not show.
	Note string
}

// Group is bars that are compared with each other first: one for each of
// Bars.Series, in that order. A missing one is a negative value.
type Group struct {
	Label  string
	Values []float64
}

// Reference is a value that others are compared with.
type Reference struct {
	Value float64
	Label string
}

// Lines are series of points, joined.
type Lines struct {
	Title    string
	Subtitle string // says what is drawn, in a line
	XLabel   string
	YLabel   string
	Series   []Series
	// Reference, where it is set, is a value of Y, marked by a line.
	Reference *Reference
	// LogX draws X on a logarithmic scale; it takes values above 0 only.
	LogX bool
	// LogY draws Y on one, from a power of ten to another.
	LogY bool
}

// Series is one line.
type Series struct {
	Name   string
	Points []Point // in the order of X
}

// Point is a measurement.
type Point struct{ X, Y float64 }
