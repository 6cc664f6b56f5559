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
// Handing over the message shows what no single call does: that two of its calls have
// one id, or are equal. Each of them is then a call of its own. The message may be
// delivered again, in whole or in part: what was done is answered from its record. Calls
// of several messages may be given together; those of one message have the same Scope,
// Session and Turn.
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
	// shared: another call of the tool in the message has the same id.
	shared bool
	// repeat counts the equal calls with the same id before it in the message.
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
	kindOf := func(c *call) kind {
		return kind{scope: c.Scope, session: c.inv.Session, turn: c.inv.Turn, tool: c.inv.Tool, id: c.id()}
	}
	ids, equal := map[kind]int{}, map[kind]int{}
	for _, c := range calls {
		if c != nil && c.Key == "" {
			ids[kindOf(c)]++
		}
	}
	for _, c := range calls {
		if c == nil || c.Key != "" {
			continue
		}
		k := kindOf(c)
		c.siblings = siblings{inMessage: true, shared: ids[k] > 1}
		var err error
		if k.args, err = dedup.FingerprintOf(c.Args); err != nil {
			continue
		}
		c.repeat = equal[k]
		equal[k]++
	}
}
