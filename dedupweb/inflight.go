package dedupweb

import "time"

// inFlight are the oldest calls of this process that have not come to an end.
type inFlight struct {
	Calls []flying
	More  int
}

// flying is a call of this process that has not come to an end.
type flying struct {
	call
	Func string
	Age  time.Duration
}

func (c *console) showInFlight(v *visit) error {
	var all inFlight
	for _, f := range c.d.Stats().InFlight {
		switch {
		case !v.sees(f.Scope):
		case len(all.Calls) == listed:
			all.More++
		default:
			all.Calls = append(all.Calls, flying{call{f.Scope, f.Tool, f.Key, v.Keys}, f.Func, time.Since(f.StartedAt)})
		}
	}
	return v.page("inflight", &all)
}
