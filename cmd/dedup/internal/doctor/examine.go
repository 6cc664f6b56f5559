package doctor

import (
	"context"
	"slices"

	"github.com/tooldedup/dedup/migrations"
)

// A check looks at one thing. It returns what it found, sound or not, nothing
// where the schema's findings say all there is to say, and an error where it could
// not read what it needs.
type check struct {
	id      string // names what is looked at
	look    func(ctx context.Context, s *session) ([]Finding, error)
	ofTable bool // there is nothing to look at without the table
}

// checks are all that is looked at. The way to the server comes first: where it
// does not lead to transactions, nothing else can be read.
func checks() []check {
	return []check{
		{"pooler", checkPooler, false},
		{"client_encoding", checkClientEncoding, false},
		{"schema", checkSchema, false},
		{"primary_key_name", checkPrimaryKeyName, true},
		{"citus", checkCitus, true},
		{"crash_safety", checkCrashSafety, false},
		{"synchronous_commit", checkSynchronousCommit, false},
		{"replication", checkReplication, false},
		{"sweep", checkSweep, true},
		{"effects", checkEffects, false},
		{"vacuum", checkVacuum, true},
	}
}

// examine looks at everything and returns the findings, worst first. It fails
// only when ctx ends.
func examine(ctx context.Context, s *session) ([]Finding, error) {
	var all []Finding
	for _, c := range checks() {
		if c.ofTable && slices.ContainsFunc(all, isTableMissing) {
			continue
		}
		found, err := c.look(ctx, s)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		all = append(all, found...)
		if err != nil {
			all = append(all, unreadable(c.id, err.Error(), tryAgain))
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return slices.Index(severities(), a.Severity) - slices.Index(severities(), b.Severity)
	})
	return all, nil
}

// isTableMissing reports whether a finding is that there is no table.
func isTableMissing(f Finding) bool {
	return f.ID == "schema_missing" || f.ID == migrations.ProblemTableMissing
}
