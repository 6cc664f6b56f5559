package runner

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// Call is one call of a tool: one intent, however many tries it takes.
type Call[R any] struct {
	// Tool is the tool's stable name. Required.
	Tool string
	// Class is the tool's, and chooses the policy. Only one try is made where it
	// is Unclassified.
	Class tool.Class

	// Key names the intent. Where it may outlive this process, it comes from a
	// [Plan] or another checkpoint. Empty: the one that the context carries, if it
	// is not another tool's; else Do mints one for classes that need it, which is
	// lost with the process. A ReadOnly tool has only the one given here.
	Key string
	// Unkeyed says that the tool takes no key. Then none is minted or carried,
	// and a write is tried once: no key, no retry.
	Unkeyed bool

	// Look asks the other side what became of the key: found says that the call
	// took effect, and value is its answer. It changes nothing, and must see every
	// write that was acknowledged, so no lagging replica. An error means that
	// nothing is known; the call is not tried before a look has succeeded.
	// Needs a key. Nil: there is no such way.
	Look func(ctx context.Context, key string) (value R, found bool, err error)

	// Resumed says that the key may have been tried before this Do, by a process
	// that has ended: then the policy's look comes before the first try too, and
	// the outcome counts as unknown until there is an answer.
	Resumed bool

	// Policy overrides [PolicyFor]. It cannot give a write without a key more than
	// one try.
	Policy *Policy
}

// Try is one try of a call.
type Try struct {
	// Number counts from 1.
	Number int
	// Key is the call's, the same on every try; empty where it has none. The
	// try's context carries it too.
	Key string
}

// Result is the answer to a call, and how it was come by.
type Result[R any] struct {
	Value R
	// Key is the call's; empty where it has none.
	Key string
	// Tries counts the tries that were made.
	Tries int
	// Found says that Call.Look found the answer: of an earlier try of this call,
	// or of whoever else called with its key.
	Found bool
}

// check refuses calls that contradict themselves.
func (c Call[R]) check() error {
	switch {
	case c.Tool == "":
		return invalid("Tool", "is empty; give the tool's stable name")
	case c.Unkeyed && c.Key != "":
		return invalid("Key", "is given for a tool that takes none (Unkeyed); drop one of the two")
	case c.Unkeyed && c.Look != nil:
		return invalid("Look", "is given for a tool that takes no key (Unkeyed), and looks up by key; drop one of the two")
	case c.Resumed && c.Key == "":
		return invalid("Key", "is empty, and the call is Resumed; give the key that was tried before, from the checkpoint")
	}
	return nil
}

// policy chooses the policy of a call with the given key.
func (c Call[R]) policy(key string) (Policy, error) {
	if c.Policy == nil {
		return PolicyFor(c.Class, key != "", c.Look != nil), nil
	}
	p := *c.Policy
	if err := p.check(); err != nil {
		return p, err
	}
	switch {
	case p.Tries > 1 && key == "" && c.Class != tool.ReadOnly && c.Class != tool.Idempotent:
		return p, invalid("Policy.Tries", "is %d for a %s tool without a key, where a second try may repeat the effect; give the call a key that the tool takes, or one try", p.Tries, c.Class)
	case p.Look && c.Look == nil:
		return p, invalid("Look", "is missing, and the policy asks for a look before every further try; give it, or leave Policy.Look false")
	case p.Look && key == "":
		return p, invalid("Key", "is empty, and the policy asks for a look, which goes by key; give one")
	}
	return p, nil
}

func invalid(field, format string, args ...any) *dedup.InvalidError {
	return &dedup.InvalidError{What: "call", Field: field, Reason: fmt.Sprintf(format, args...)}
}
