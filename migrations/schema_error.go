package migrations

import (
	"fmt"
	"strings"
)

// SchemaError is the error of [Check]. It has every problem of a schema.
type SchemaError struct {
	// Problems is never empty. Repair its problems in this order.
	Problems []Problem
}

// Problem is one problem of a schema, and its repair.
type Problem struct {
	// Name is stable. docs/operations.md lists the names. Several problems can have one name, such
	// as those of several columns.
	Name string
	// What describes the problem and its consequence.
	What string
	// Fix is the repair. If SQL is enough, it is "run: " and a statement for the table's owner.
	Fix string
	// Warning is true if calls work in spite of the problem: it is about the sweep's index, or
	// about a table that only operators read.
	Warning bool
}

// Error implements error. It lists every problem with its fix, each on a line.
func (e *SchemaError) Error() string {
	var out strings.Builder
	noun := "problems"
	if len(e.Problems) == 1 {
		noun = "problem"
	}
	fmt.Fprintf(&out, "dedup: the schema is not sound, %d %s:", len(e.Problems), noun)
	for _, p := range e.Problems {
		fmt.Fprintf(&out, "\n- %s: %s; %s", p.Name, p.What, p.Fix)
	}
	return out.String()
}
