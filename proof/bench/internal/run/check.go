package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
)

// The rounds of a check, and of the second check after a broken bound.
const (
	checkRounds = 31
	againRounds = 41
)

// short is the measurement of --check: the figures with bounds, in under a minute.
func (o *options) short() {
	// Many short rounds are better than few long ones. A neighbour's burst spoils one of them, and
	// the median leaves it out. In a short round, way and base are close in time.
	o.rounds, o.duration = checkRounds, 60*time.Millisecond
	o.delays, o.clients = []time.Duration{0, near}, []int{1, 16}
	o.kinds = []string{string(First), string(Replay)}
	for _, b := range allBounds {
		o.ways = append(o.ways, b.way)
	}
}

// checkAll measures and compares with the bounds.
func checkAll(ctx context.Context, b *bed.Bed, o options) error {
	var reports []*Report
	for _, rounds := range []int{checkRounds, againRounds} {
		o.rounds = rounds
		r, err := measureAll(ctx, b, o)
		if err != nil {
			return err
		}
		reports = append(reports, r)
		broken, err := check(b.Out, allBounds, reports...)
		if err != nil || len(broken) == 0 {
			return err
		}
		if rounds == againRounds {
			return fmt.Errorf(`bounds are broken: %s
Run it again on a machine with nothing else to do. If it stays, find what made the library
slower (git bisect run make bench-check); a bound is moved only for a reason that its commit gives,
in bench/internal/run/bounds.go`, broken)
		}
		fmt.Fprint(b.Out, "A bound is broken. Measuring once more, to tell a slow library from a busy machine.\n\n")
	}
	return nil
}

// check compares one or several reports with the bounds, writes each bound with its value, and
// returns the broken ones. A bound is broken if no report keeps it: a busy machine breaks a bound
// now and then, a slow library every time. The error is a bound without a value in the report.
func check(w io.Writer, bounds []bound, reports ...*Report) (broken []bound, err error) {
	t := measure.NewTable(w, "bound", "allowed", "measured", "")
	for _, b := range bounds {
		var value float64
		for _, r := range reports {
			var ok bool
			if value, ok = b.value(r); !ok {
				err = errors.Join(err, fmt.Errorf("the report has no %s", b))
			}
			if b.holds(value) {
				break
			}
		}
		verdict := "ok"
		if !b.holds(value) {
			verdict = "BROKEN"
			broken = append(broken, b)
		}
		t.Row(b, b.allowed(), value, verdict)
	}
	t.Flush()
	return broken, err
}
