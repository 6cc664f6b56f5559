package dedupweb

import "time"

// flying is a call of this process that has not come to an end.
type flying struct {
	call
	Func string
	Age  time.Duration
}

func (c *console) showInFlight(v *visit) error {
	all := []flying{}
	for _, f := range c.d.Stats().InFlight {
		if v.sees(f.Scope) {
			all = append(all, flying{call{f.Scope, f.Tool, f.Key, v.Keys}, f.Func, time.Since(f.StartedAt)})
		}
	}
	return v.page("inflight", all)
}
