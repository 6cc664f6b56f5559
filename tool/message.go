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
	// repeat counts the equal calls before it in the message, whatever their ids;
	// again says that one of them has the same id.
	repeat int
	again  bool
}

// kind is what calls of one message have in common.
type kind struct {
	scope, session string
	turn           int
	tool, id       string
	args           dedup.Fingerprint
}

// compare tells calls that were handed over together about each other. Some may be
// nil. A call without a fingerprint is equal to none: it is refused when it is made.
func compare(calls []*call) {
	kindOf := func(c *call) kind {
		return kind{scope: c.Scope, session: c.inv.Session, turn: c.inv.Turn, tool: c.inv.Tool}
	}
	ids, equal, same := map[kind]int{}, map[kind]int{}, map[kind]int{}
	for _, c := range calls {
		if c != nil {
			k := kindOf(c)
			k.id = c.inv.CallID
			ids[k]++
		}
	}
	for _, c := range calls {
		if c == nil {
			continue
		}
		byID := kindOf(c)
		byID.id = c.inv.CallID
		c.siblings = siblings{inMessage: true, shared: ids[byID] > 1}
		args, err := dedup.FingerprintOf(c.Args)
		if err != nil {
			continue
		}
		byArgs, byBoth := kindOf(c), byID
		byArgs.args, byBoth.args = args, args
		c.repeat, c.again = equal[byArgs], same[byBoth] > 0
		equal[byArgs]++
		same[byBoth]++
	}
}
