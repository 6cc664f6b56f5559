package runner

import (
	"time"

	"github.com/tooldedup/dedup/tool"
)

// Policy says how often a call is tried and how long to pause between. It is a
// value: it keeps no state, and every call begins it anew.
type Policy struct {
	// Tries is the most tries, the first included. 0 and 1 mean one.
	Tries int
	// First is the longest that the first pause may be; each further one may be
	// twice as long, up to Max. A pause is drawn evenly from nothing to that
	// (full jitter), so that callers who failed together do not come back
	// together. Near a deadline a pause takes at most half of the time that is left.
	// 0: no pause.
	First time.Duration
	// Max is the longest that a pause may become, and at least First. 0: 1 minute.
	// A server's Retry-After is obeyed whatever Max says.
	Max time.Duration
	// TryTimeout bounds each try for itself. One that ran out of
	// it is worth another. 0: only the caller's context bounds them.
	TryTimeout time.Duration
}

const defaultMax = time.Minute

// policyFor returns the policy of calls of a class, which the package documentation has. keyed says
// that the call has a key that the tool takes. No key, no retry: but for tools that change nothing
// more when they run again.
func policyFor(class tool.Class, keyed bool) Policy {
	writes := class == tool.Idempotent || class == tool.Write || class == tool.Destructive || class == tool.External
	switch {
	case writes && keyed:
		return Policy{Tries: 3, First: 2 * time.Second}
	case class == tool.ReadOnly, class == tool.Idempotent:
		return Policy{Tries: 3, First: time.Second}
	default:
		return Policy{Tries: 1}
	}
}

// check refuses policies that say nothing sensible.
func (p Policy) check() error {
	switch {
	case p.Tries < 0:
		return invalid("Policy.Tries", "is negative; give the most tries, the first included")
	case p.First < 0 || p.Max < 0 || p.TryTimeout < 0:
		return invalid("Policy", "has a negative duration; leave First, Max or TryTimeout at 0 for its default")
	case p.Max > 0 && p.Max < p.First:
		return invalid("Policy.Max", "is %s, less than First (%s), which it bounds; raise it or leave it at 0", p.Max, p.First)
	}
	return nil
}

// pause draws the pause after the nth try, with left the time to the deadline.
// Retry-After is a lower bound, and the draw comes on top of it: a server that is
// overloaded asks the same of everybody. The draw leaves the next try at least half
// of the time that is left behind Retry-After, which must not be more than left.
func (p Policy) pause(tries int, retryAfter, left time.Duration, rand func(int64) int64) time.Duration {
	retryAfter = max(retryAfter, 0)
	bound := min(p.bound(tries), (left-retryAfter)/2)
	return retryAfter + time.Duration(rand(int64(bound)+1))
}

// bound is the longest drawn pause after the nth try, from 1.
func (p Policy) bound(tries int) time.Duration {
	longest := p.Max
	if longest == 0 {
		longest = max(defaultMax, p.First)
	}
	bound := p.First
	for range tries - 1 {
		if bound > longest/2 {
			return longest
		}
		bound *= 2
	}
	return bound
}
