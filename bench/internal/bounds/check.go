package bounds

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// A BrokenError is returned by [Check] when the report leaves a bound.
type BrokenError struct {
	Broken []Bound
	says   []string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf(`bounds are broken: %d
  %s
Run it again on a machine with nothing else to do. If it stays, find what made the library
slower (git bisect run make bench-check); a bound is moved only for a reason that its commit gives,
in bench/internal/bounds/bounds.go.`, len(e.Broken), strings.Join(e.says, "\n  "))
}

// Check compares what was measured, once or several times, with all bounds, and
// writes each beside its value. A bound is broken if no report keeps it: a busy
// machine breaks one now and then, a slow library every time. The error is a
// [*BrokenError] if one is broken, and another one if a report does not have what
// a bound is about.
func Check(w io.Writer, reports ...*report.Report) error { return check(w, All(), reports...) }

func check(w io.Writer, bounds []Bound, reports ...*report.Report) error {
	t := figure.NewTable("bound", "allowed", "measured", "")
	broken := &BrokenError{}
	var missing []error
	for _, b := range bounds {
		value, ok := b.measured(reports)
		if !ok {
			missing = append(missing, fmt.Errorf("the report has no %s", b))
			continue
		}
		verdict := "ok"
		if !b.holds(value) {
			verdict = "BROKEN"
			broken.Broken = append(broken.Broken, b)
			broken.says = append(broken.says, fmt.Sprintf("%s is %.2f, and must be %s", b, value, b.allowed()))
		}
		t.Row(b, b.allowed(), fmt.Sprintf("%.2f", value), verdict)
	}
	t.Write(w)
	if len(broken.Broken) > 0 {
		missing = append(missing, broken)
	}
	return errors.Join(missing...)
}

// measured is the value of the first report that keeps the bound, and of the last
// one if none does.
func (b Bound) measured(reports []*report.Report) (value float64, ok bool) {
	for _, r := range reports {
		if value, ok = b.value(r); !ok || b.holds(value) {
			break
		}
	}
	return value, ok
}

func (b Bound) value(r *report.Report) (float64, bool) {
	if !b.loads() {
		c, ok := r.Cost(b.Way, b.Kind)
		return map[What]float64{RoundTrips: c.RoundTrips, WALBytes: c.WALBytes, StoredBytes: c.StoredBytes, Allocs: c.Allocs}[b.What], ok
	}
	c, ok := r.Cell(b.Way, b.Kind, b.Delay, b.Clients)
	if b.What == Ratio {
		return c.Ratio, ok
	}
	base, known := r.Cell(way.Base, report.First, b.Delay, b.Clients)
	w, _ := r.Way(b.Way)
	return float64(w.Batch) * float64(base.P50) / float64(c.P50), ok && known
}

func (b Bound) holds(value float64) bool {
	return value >= b.Least && (b.Most == 0 || value <= b.Most)
}

func (b Bound) allowed() string {
	switch {
	case b.Least == b.Most:
		return fmt.Sprintf("exactly %g", b.Least)
	case b.Most == 0:
		return fmt.Sprintf("at least %g", b.Least)
	case b.Least == 0:
		return fmt.Sprintf("at most %g", b.Most)
	}
	return fmt.Sprintf("%g to %g", b.Least, b.Most)
}

// String names the value.
func (b Bound) String() string {
	text := fmt.Sprintf("%s, %s: %s", b.Way, b.Kind, b.What)
	if !b.loads() {
		return text
	}
	return fmt.Sprintf("%s at %s, clients: %d", text, report.Line{Delay: b.Delay}, b.Clients)
}
