package doctor

import (
	"context"
	"slices"
)

// A check looks at one thing. It returns at least one finding, sound or not,
// and an error where it could not read what it needs.
type check struct {
	id   string // names what is looked at
	look func(ctx context.Context, s *session) ([]Finding, error)
}

// checks are all that is looked at. The way to the server comes first: where it
// does not lead to transactions, nothing else can be read.
func checks() []check {
	return []check{
		{"pooler", checkPooler},
		{"client_encoding", checkClientEncoding},
		{"schema", checkSchema},
		{"primary_key_name", checkPrimaryKeyName},
		{"citus", checkCitus},
		{"crash_safety", checkCrashSafety},
		{"synchronous_commit", checkSynchronousCommit},
		{"replication", checkReplication},
		{"sweep", checkSweep},
		{"vacuum", checkVacuum},
	}
}

// examine looks at everything and returns the findings, worst first. It fails
// only when ctx ends.
func examine(ctx context.Context, s *session) ([]Finding, error) {
	var all []Finding
	for _, c := range checks() {
		found, err := c.look(ctx, s)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		all = append(all, found...)
		if err != nil {
			all = append(all, unreadable(c.id, err.Error(), "remove what is in the way and run `dedup doctor` again"))
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return slices.Index(severities(), a.Severity) - slices.Index(severities(), b.Severity)
	})
	return all, nil
}
