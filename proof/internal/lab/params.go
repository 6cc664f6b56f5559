package lab

import "fmt"

// Params are a campaign's parameters.
type Params struct {
	// Seed decides everything that is drawn.
	Seed uint64
	// Calls is about the number of deliveries.
	Calls int
	// Short selects the form that is part of the tests, in campaigns without a number of calls.
	Short bool
	// Arms are the arms of the campaign external to run. Empty means all.
	Arms []string
	// Say is called with each line about the progress.
	Say func(line string)
}

// Sayf says a formatted line.
func (p Params) Sayf(format string, args ...any) {
	if p.Say != nil {
		p.Say(fmt.Sprintf(format, args...))
	}
}
