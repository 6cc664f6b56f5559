package runner_test

import (
	"fmt"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// No key, no retry: unless the class says that running the tool again does no harm.
func ExamplePolicyFor() {
	for _, class := range []tool.Class{tool.ReadOnly, tool.Idempotent, tool.Write, tool.Destructive, tool.External, tool.Unclassified} {
		unkeyed, keyed, checked := runner.PolicyFor(class, false, false), runner.PolicyFor(class, true, false), runner.PolicyFor(class, true, true)
		fmt.Printf("%-12s %d tries without a key, %d with one, %d with a look-up too\n", class, unkeyed.Tries, keyed.Tries, checked.Tries)
	}

	// Output:
	// read_only    3 tries without a key, 3 with one, 3 with a look-up too
	// idempotent   3 tries without a key, 3 with one, 5 with a look-up too
	// write        1 tries without a key, 3 with one, 5 with a look-up too
	// destructive  1 tries without a key, 3 with one, 5 with a look-up too
	// external     1 tries without a key, 3 with one, 5 with a look-up too
	// unclassified 1 tries without a key, 1 with one, 1 with a look-up too
}
