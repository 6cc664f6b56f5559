package replay

import (
	"fmt"
	"regexp"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// maxAlike is the number of equal errors in a row that ends a call. A plan has at most three faults
// for one delivery.
const maxAlike = 5

// failures are the last deliveries of one call that failed with equal errors.
type failures struct {
	alike int
	text  string // of the error, without its digits
}

// digits are a port, a process id or a time. Equal errors may differ in them.
var digits = regexp.MustCompile(`\d`)

// add notes the error of an unanswered delivery and returns it. The error is hopeless if the call
// is not to be sent again.
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
