package dedupweb

import "github.com/tooldedup/dedup/internal/inspect"

// inFlight are the oldest calls that have not come to an end.
type inFlight struct {
	Calls []inspect.Need
	More  bool
	// Problem says why those of other processes could not be read.
	Problem string
}

func (c *console) showInFlight(v *visit) error {
	calls, err := c.db.InFlight(v.r.Context(), v.Scopes, listed+1)
	all := &inFlight{Calls: calls[:min(len(calls), listed)], More: len(calls) > listed}
	if err != nil {
		all.Problem = explained(err)
	}
	v.hide(all.Calls)
	return v.page("inflight", all)
}

// hide takes away the statements of effects where they may not be seen.
func (a *Access) hide(needs []inspect.Need) {
	for _, n := range needs {
		if n.Session != nil && !a.Results {
			n.Session.Statement = ""
		}
	}
}
