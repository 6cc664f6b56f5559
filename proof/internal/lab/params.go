package lab

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
	// Sayf says how it goes, a line at a time.
	Sayf func(format string, args ...any)
}
