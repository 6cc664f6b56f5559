package runner

import (
	"fmt"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// Call is one call of a tool: one intent, however many tries it takes.
type Call struct {
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

	// Resumed says that the key may have been tried before this Do, by a process
	// that has ended: then the outcome counts as unknown until there is an answer.
	Resumed bool

	// Policy overrides that of the class, which the package documentation has. It cannot give
	// a write without a key more than one try.
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
}

// check refuses calls that contradict themselves.
func (c Call) check() error {
	switch {
	case c.Tool == "":
		return invalid("Tool", "is empty; give the tool's stable name")
	case c.Unkeyed && c.Key != "":
		return invalid("Key", "is given for a tool that takes none (Unkeyed); drop one of the two")
	case c.Resumed && c.Key == "":
		return invalid("Key", "is empty, and the call is Resumed; give the key that was tried before, from the checkpoint")
	}
	return nil
}

// policy chooses the policy of a call with the given key.
func (c Call) policy(key string) (Policy, error) {
	if c.Policy == nil {
		return policyFor(c.Class, key != ""), nil
	}
	p := *c.Policy
	if err := p.check(); err != nil {
		return p, err
	}
	if p.Tries > 1 && key == "" && c.Class != tool.ReadOnly && c.Class != tool.Idempotent {
		return p, invalid("Policy.Tries", "is %d for a %s tool without a key, where a second try may repeat the effect; give the call a key that the tool takes, or one try", p.Tries, c.Class)
	}
	return p, nil
}

func invalid(field, format string, args ...any) *dedup.InvalidError {
	return &dedup.InvalidError{What: "call", Field: field, Reason: fmt.Sprintf(format, args...)}
}
