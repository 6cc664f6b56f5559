package external

import (
	"errors"
	"fmt"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
)

// Problems returns all for which [Add] would refuse a tool, each an option of it; nil where Add
// takes it. A nil x leaves out what depends on x. It adds nothing: use it where several
// tools are to be added, or none.
func Problems[In, Out any](x *Tools, t Tool[In, Out]) []*dedup.InvalidError {
	all := t.problems()
	if x == nil {
		return all
	}
	_, err := dedup.New(x.pool, &dedup.Options{Retention: t.Retention})
	bad, ok := errors.AsType[*dedup.InvalidError](err)
	if ok {
		all = append(all, bad)
	}
	if t.KeyKept > 0 && t.KeyKept != Forever {
		if least := x.keyNeeds(t.Settles, t.timeout()); t.KeyKept <= least {
			all = append(all, badOption("KeyKept", "is %s, and a key is sent again only within KeyKept less %s, by Settles, Timeout and Options.Lease: it never would be", t.KeyKept, least))
		}
		if kept := x.remembered(t.Retention); !ok && t.KeyKept > kept {
			all = append(all, badOption("KeyKept", "is %s, and the answer is remembered for %s: a later call of the same identity would be given the old effect", t.KeyKept, kept))
		}
	}
	if x.Has(t.Name) {
		all = append(all, taken(t.Name))
	}
	return all
}

func taken(name string) *dedup.InvalidError {
	return badOption("Name", "%q is taken by another tool", name)
}

func badOption(field, format string, args ...any) *dedup.InvalidError {
	return &dedup.InvalidError{What: "option", Field: "Tool." + field, Reason: fmt.Sprintf(format, args...)}
}

// problems says all that is wrong with the tool by itself.
func (t *Tool[In, Out]) problems() (all []*dedup.InvalidError) {
	report := func(field, format string, args ...any) { all = append(all, badOption(field, format, args...)) }
	if problem := table.NameProblem("Tool", t.Name); problem != "" {
		report("Name", "%s", problem)
	}
	if t.Perform == nil {
		report("Perform", "is nil")
	}
	if t.KeyKept < 0 || t.Settles < 0 || t.Timeout < 0 {
		report("Timeout", "is negative, or KeyKept or Settles is")
	}
	if t.Settles > maxSpan || t.Timeout > maxSpan {
		report("Timeout", "is longer than a year, or Settles is")
	}
	if t.Ref == nil && (t.Find != nil || t.KeyKept > 0) {
		report("Ref", "is nil: with Find or KeyKept an effect may happen twice, and only its ref shows that")
	}
	if t.Settles > 0 && t.Find == nil && t.KeyKept == 0 {
		report("Settles", "is of no use without Find or KeyKept")
	}
	if t.KeyKept > 0 && t.Settles >= t.KeyKept {
		report("Settles", "is %s, as long as KeyKept or longer: the key would be forgotten before an attempt can no longer take effect", t.Settles)
	}
	if timeout := t.timeout(); t.KeyKept > 0 && timeout > t.KeyKept/4 {
		report("Timeout", "is %s, and at most a quarter of KeyKept leaves time to send the key again", timeout)
	}
	return all
}
