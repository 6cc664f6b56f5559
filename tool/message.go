package tool

import (
	"context"

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
	outcomes := make([]Outcome, len(calls))
	prepared := make([]*call, len(calls))
	for i, inv := range calls {
		prepared[i], outcomes[i].Err = r.prepare(ctx, inv)
	}
	compare(prepared)
	for i, c := range prepared {
		if c != nil {
			outcomes[i].Answer, outcomes[i].Err = r.make(ctx, c)
		}
	}
	return outcomes
}

// siblings is what the calls of a message say about one of them.
type siblings struct {
	inMessage bool
	// shared: another call of the tool in the message has the same id and other arguments.
	shared bool
	// repeat counts the equal calls before it in the message, of a call without a usable id.
	repeat int
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
