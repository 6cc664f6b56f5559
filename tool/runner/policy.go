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
	// Look asks Call.Look before every further try, and tries only where it found
	// nothing.
	Look bool
	// TryTimeout bounds each try, and each look, for itself. One that ran out of
	// it is worth another. 0: only the caller's context bounds them.
	TryTimeout time.Duration
}

// defaultMax is reached by no preset: the longest pause of CheckedPolicy is 40 s.
const defaultMax = time.Minute

// The presets follow the practice of agent platforms; their numbers are
// conventions, and not measured. What tells them apart is what a repeat can
// break, and so how patient it pays to be.

// OncePolicy is a single try: for a call without a key, and for tools of which
// nobody has said what running them again would do.
func OncePolicy() Policy { return Policy{Tries: 1} }

// ReadPolicy is for tools that change nothing: 3 tries, from 1 s.
func ReadPolicy() Policy { return Policy{Tries: 3, First: time.Second} }

// KeyedPolicy is for writes with a key: 3 tries, from 2 s.
func KeyedPolicy() Policy { return Policy{Tries: 3, First: 2 * time.Second} }

// CheckedPolicy is for writes with a key and a way to look up what became of it:
// 5 tries, from 5 s, with a look before every further one.
func CheckedPolicy() Policy { return Policy{Tries: 5, First: 5 * time.Second, Look: true} }

// PolicyFor returns the policy of calls of a class: keyed says that the call
// has a key that the tool takes, checked that its outcome can be looked up by
// that key. No key, no retry:
//
//	class                 no key        key           key and look-up
//	ReadOnly              ReadPolicy    ReadPolicy    ReadPolicy
//	Idempotent            ReadPolicy    KeyedPolicy   CheckedPolicy
//	Write, Destructive,
//	External              OncePolicy    KeyedPolicy   CheckedPolicy
//	any other             OncePolicy    OncePolicy    OncePolicy
//
// An Idempotent tool is retried without a key because that is what its class
// says: running it again changes nothing more. HTTP has the same rule for PUT
// (RFC 9110, section 9.2.2). Like there, a late repeat can undo what somebody
// else has written since; where that matters, give it a key.
//
// An External tool honours keys where package external runs it: the same call again asks what
// became of the first one. One of somebody else's that takes no key is Call.Unkeyed.
func PolicyFor(class tool.Class, keyed, checked bool) Policy {
	switch class {
	case tool.ReadOnly:
		return ReadPolicy()
	case tool.Idempotent:
		if !keyed {
			return ReadPolicy()
		}
	case tool.Write, tool.Destructive, tool.External:
	default:
		return OncePolicy()
	}
	switch {
	case !keyed:
		return OncePolicy()
	case checked:
		return CheckedPolicy()
	default:
		return KeyedPolicy()
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
