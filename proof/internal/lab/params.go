package lab

import "fmt"

// Params are what a campaign is run with.
type Params struct {
	// Seed draws everything that is drawn.
	Seed uint64
	// Calls is how many deliveries to make, about.
	Calls int
	// Short asks for the form that is part of the tests, where a campaign has no
	// number of calls.
	Short bool
	// BinDirs are folders with the programs of further servers.
	BinDirs []string
	// Arms are those to run of the campaign external; empty is all.
	Arms []string
	// Say is told how it goes, a line at a time.
	Say func(line string)
}

// Sayf says how it goes.
func (p Params) Sayf(format string, args ...any) {
	if p.Say != nil {
		p.Say(fmt.Sprintf(format, args...))
	}
}
