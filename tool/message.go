package tool

import (
	"cmp"
	"context"
	"strconv"

	"github.com/tooldedup/dedup"
)

// InvokeResult is the result of one call of a message, as [Registry.Invoke] returns it.
type InvokeResult struct {
	Answer Answer
	Err    error
}

// InvokeAll makes the calls of one message of a model one after the other, in their order, and
// returns a result for each. If a call fails, the next ones are still made.
//
// The whole message shows facts that a single call cannot: two calls have one id and different
// arguments, or two calls are equal without a usable id. Each of them is then a call of its own.
// Two calls of one tool with the same usable id and the same arguments are one call, which a stream
// emitted twice.
//
// The message may be delivered again: calls that were made are answered from their records. A part
// of it may be delivered alone, unless it has equal calls of a tool with OncePerRequest. Calls of
// several messages may be given together. Calls with the same Scope, Session and Turn belong to one
// message.
func (r *Registry) InvokeAll(ctx context.Context, calls []Invocation) []InvokeResult {
	m := r.Message(calls...)
	results := make([]InvokeResult, len(calls))
	for i := range calls {
		results[i].Answer, results[i].Err = m.Invoke(ctx, i)
	}
	return results
}

// Message holds the calls of one message of a model, for a caller that makes them one by one, in
// parallel, or only some of them: agent frameworks run each tool separately, and a person may
// refuse one. It is safe for concurrent use.
type Message struct {
	r     *Registry
	calls []*call
	errs  []error
}

// Message takes the calls of a message, as [Registry.InvokeAll] does, and makes none of them.
// [Message.Invoke] returns the error of a call that cannot be made.
func (r *Registry) Message(calls ...Invocation) *Message {
	m := &Message{r: r, calls: make([]*call, len(calls)), errs: make([]error, len(calls))}
	for i, inv := range calls {
		m.calls[i], m.errs[i] = r.prepare(inv)
	}
	compareSiblings(m.calls)
	return m
}

// Invoke makes the call at index i, as [Registry.Invoke] does. A second Invoke of the same call
// returns the same answer. It panics if i is out of range.
func (m *Message) Invoke(ctx context.Context, i int) (Answer, error) {
	if err := m.errs[i]; err != nil {
		return Answer{}, err
	}
	if err := refuseEffect(ctx); err != nil {
		return Answer{}, err
	}
	c := *m.calls[i]
	return m.r.make(ctx, &c)
}

// siblings has the facts about a call that its message shows.
type siblings struct {
	inMessage bool
	// shared: another call of the tool in the message has the same id and other arguments.
	shared bool
	// repeat counts the equal calls before this one in the message. It is set for calls without a
	// usable id.
	repeat int
	// nth counts the equal calls before this one in the message, whatever their ids. It is set for
	// tools with OncePerRequest.
	nth int
}

// group has the properties by which calls of one message are counted together.
type group struct {
	scope, session string
	turn           int
	tool, id       string
	args           dedup.Fingerprint
}

// compareSiblings sets the siblings of calls that were given together. Some calls may be nil. A
// call with a key is skipped: no other call can take its key. A call without a fingerprint equals
// no other: it is refused when it is made.
//
// Calls with different ids are never counted together, even if they are equal: a part of the
// message, without one of them, may be delivered again. All ids that name no call count as one id.
// Only nth counts across ids, because a model that plans again makes new ones.
func compareSiblings(calls []*call) {
	byID, equal := map[group]map[dedup.Fingerprint]bool{}, map[group]int{}
	groups := make([]group, len(calls))
	nths, counts := map[group]int{}, map[group]int{}
	for i, c := range calls {
		if c == nil || c.Key != "" {
			continue
		}
		c.inMessage = true
		k := group{scope: c.Scope, session: c.inv.Session, turn: c.inv.Turn, tool: c.Tool, id: c.id()}
		groups[i] = k
		args, err := dedup.FingerprintOf(c.Args)
		if err != nil {
			continue
		}
		if c.isOnce() {
			same := k
			same.args, same.id = args, ""
			one := same
			one.id = cmp.Or(k.id, "\x00"+strconv.Itoa(i)) // each call without an id is its own
			if _, known := nths[one]; !known {
				nths[one] = counts[same]
				counts[same]++
			}
			c.nth = nths[one]
		}
		if k.id != "" {
			if byID[k] == nil {
				byID[k] = map[dedup.Fingerprint]bool{}
			}
			byID[k][args] = true
			continue
		}
		k.args = args
		c.repeat = equal[k]
		equal[k]++
	}
	for i, c := range calls {
		if c != nil && c.inMessage {
			c.shared = len(byID[groups[i]]) > 1
		}
	}
}
