package dedupweb

import "github.com/tooldedup/dedup/internal/inspect"

// inFlight is the page of the oldest calls in flight.
type inFlight struct {
	Calls []inspect.Need
	More  bool
	// Problem is the reason why other processes' calls could not be read.
	Problem string
}

func (c *console) showInFlight(v *visit) error {
	calls, err := c.db.InFlight(v.r.Context(), v.Scopes, listed+1)
	all := &inFlight{Calls: calls[:min(len(calls), listed)], More: len(calls) > listed}
	if err != nil {
		all.Problem = errorText(err)
	}
	v.hide(all.Calls)
	return v.page("inflight", all)
}

// hide removes the effects' statements if the visitor may not see them.
func (a *Access) hide(needs []inspect.Need) {
	for _, n := range needs {
		if n.Session != nil && !a.Results {
			n.Session.Statement = ""
		}
	}
}
