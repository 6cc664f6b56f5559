package tool

import (
	"cmp"
	"context"
	"strconv"

	"github.com/tooldedup/dedup"
)

// Outcome is what became of one call of a message: what Invoke would have
// returned.
type Outcome struct {
	Answer Answer
	Err    error
}

// InvokeAll makes the calls of one message of a model, one after the other and in
// their order, and returns an outcome for each. A call that fails keeps none of the
// others from being made.
//
// Handing over the message shows what no single call does: that two of its calls have one id and
// other arguments, or are equal and have no usable id. Each of them is then a call of its own. Two
// calls of one tool with the same usable id and the same arguments are one call, which a stream
// has emitted twice. The message may be delivered again, in whole or in part: what was done is
// answered from its record. Calls of several messages may be given together; those of one
// message have the same Scope, Session and Turn.
func (r *Registry) InvokeAll(ctx context.Context, calls []Invocation) []Outcome {
	m := r.Message(calls...)
	outcomes := make([]Outcome, len(calls))
	for i := range calls {
		outcomes[i].Answer, outcomes[i].Err = m.Invoke(ctx, i)
	}
	return outcomes
}

// Message has the calls of a message of a model, for callers that make them one by one, at once, or
// not all of them: an agent's framework runs each tool by itself, and a person may refuse one. It is
// safe for concurrent use.
type Message struct {
	r     *Registry
	calls []*call
	errs  []error
}

// Message takes the calls of a message, as [Registry.InvokeAll] does, and makes none of them. The
// error of a call that cannot be made is returned by [Message.Invoke].
func (r *Registry) Message(calls ...Invocation) *Message {
	m := &Message{r: r, calls: make([]*call, len(calls)), errs: make([]error, len(calls))}
	for i, inv := range calls {
		m.calls[i], m.errs[i] = r.prepare(inv)
	}
	compare(m.calls)
	return m
}

// Invoke makes the call at index i, as [Registry.Invoke] does. Made again, it has its answer again. It
// panics if there is no such call.
func (m *Message) Invoke(ctx context.Context, i int) (Answer, error) {
	if err := m.errs[i]; err != nil {
		return Answer{}, err
	}
	if err := outside(ctx); err != nil {
		return Answer{}, err
	}
	c := *m.calls[i]
	return m.r.make(ctx, &c)
}

// siblings is what the calls of a message say about one of them.
type siblings struct {
	inMessage bool
	// shared: another call of the tool in the message has the same id and other arguments.
	shared bool
	// repeat counts the equal calls before it in the message, of a call without a usable id.
	repeat int
	// nth counts the equal calls before it in the message, of a tool with OncePerRequest.
	nth int
}

// kind is what calls of one message have in common.
type kind struct {
	scope, session string
	turn           int
	tool, id       string
	args           dedup.Fingerprint
}

// compare tells calls that were handed over together about each other. Some may be
// nil. Those with a key of their own are left out, since no other call can take it. A
// call without a fingerprint is equal to none: it is refused when it is made.
//
// Calls with another id do not count, however equal: they may be missing where a part of
// the message is delivered again. All ids that name no call are one.
func compare(calls []*call) {
	byID, equal := map[kind]map[dedup.Fingerprint]bool{}, map[kind]int{}
	kinds := make([]kind, len(calls))
	nths, made := map[kind]int{}, map[kind]int{}
	for i, c := range calls {
		if c == nil || c.Key != "" {
			continue
		}
		c.inMessage = true
		k := kind{scope: c.Scope, session: c.inv.Session, turn: c.inv.Turn, tool: c.Tool, id: c.id()}
		kinds[i] = k
		args, err := dedup.FingerprintOf(c.Args)
		if err != nil {
			continue
		}
		if c.isOnce() {
			same := k
			same.args, same.id = args, ""
			one := same
			one.id = cmp.Or(k.id, "\x00"+strconv.Itoa(i)) // a call without an id is one of its own
			if _, known := nths[one]; !known {
				nths[one] = made[same]
				made[same]++
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
			c.shared = len(byID[kinds[i]]) > 1
		}
	}
}
