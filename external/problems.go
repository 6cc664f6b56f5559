package external

import (
	"errors"
	"fmt"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
)

// Problems returns every reason for which [Add] would refuse a tool; nil if Add would accept it.
// Each is about one option. With a nil x it skips the checks that need x. Problems adds nothing:
// use it to add several tools or none.
func Problems[In, Out any](x *Tools, t Tool[In, Out]) []*dedup.InvalidError {
	all := t.problems()
	if x == nil {
		return all
	}
	kept := x.retention(t.Retention)
	_, err := dedup.New(x.pool, &dedup.Options{Retention: kept})
	bad, ok := errors.AsType[*dedup.InvalidError](err)
	if !ok && kept.Result < 0 {
		bad, ok = &dedup.InvalidError{What: "option", Field: "Retention", Reason: "Result must not be negative: a call that waits, and a later one, read the answer from the record"}, true
	}
	if ok {
		all = append(all, bad)
	}
	if t.KeyKept > 0 && t.KeyKept != Forever {
		if least := x.keyMargin(t.Settles, t.timeout()); t.KeyKept <= least {
			all = append(all, badOption("KeyKept", "is %s, but a key is sent again only until %s before KeyKept ends (from Settles, Timeout and Options.Lease); make KeyKept longer", t.KeyKept, least))
		}
		if kept := x.remembered(t.Retention); !ok && t.KeyKept > kept {
			all = append(all, badOption("KeyKept", "is %s, but the record is kept for %s; make Retention at least as long, or a later call of the same identity gets the old effect", t.KeyKept, kept))
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

// problems returns the problems that do not depend on Tools.
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
		report("Ref", "is nil; Find and KeyKept need it to tell two effects apart")
	}
	if t.Settles > 0 && t.Find == nil && t.KeyKept == 0 {
		report("Settles", "has no use without Find or KeyKept")
	}
	if t.KeyKept > 0 && t.Settles >= t.KeyKept {
		report("Settles", "is %s and must be less than KeyKept, or the provider forgets the key while an attempt may take effect", t.Settles)
	}
	if timeout := t.timeout(); t.KeyKept > 0 && timeout > t.KeyKept/4 {
		report("Timeout", "is %s and must be at most a quarter of KeyKept, or no time is left to send the key again", timeout)
	}
	return all
}
