package replay

import (
	"fmt"
	"regexp"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// maxAlike is how many equal errors in a row end a call: a plan has at most three faults for one delivery.
const maxAlike = 5

// failures are the last deliveries of one call, as far as they failed with one error.
type failures struct {
	alike int
	text  string // of that error, without its digits
}

// digits are those of a port, a process or a time, in which one error may differ.
var digits = regexp.MustCompile(`\d`)

// add notes why a delivery was not answered. It returns the error, as a hopeless one where the call is not to be
// sent again.
func (f *failures) add(err error) error {
	text := digits.ReplaceAllString(err.Error(), "")
	if text != f.text {
		*f = failures{text: text}
	}
	if f.alike++; f.alike >= maxAlike {
		return lab.Hopeless{Err: fmt.Errorf("the last %d deliveries failed with one error, which no fault of the plan does: %w", f.alike, err)}
	}
	return err
}
