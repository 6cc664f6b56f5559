package migrations

import (
	"fmt"
	"strings"
)

// SchemaError lists all that is wrong with a database's tool_dedup. Returned by
// [Check].
type SchemaError struct {
	// Problems is never empty. Its problems are in the order of repair.
	Problems []Problem
}

// Problem is one thing that is wrong, and how to put it right.
type Problem struct {
	// Name is stable, and listed in the runbook, docs/operations.md. Several problems can have
	// one name, such as those of several columns.
	Name string
	// What describes the fault and its consequence.
	What string
	// Fix says what to do. Where SQL is all there is to it, it is "run: " and
	// a statement for a role that owns the table.
	Fix string
	// Warning is true where calls are answered as if the problem were not there: the index of
	// the sweep, and the tables that only operators read.
	Warning bool
}

// Error implements error. It lists every problem with its fix, one to a line.
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
