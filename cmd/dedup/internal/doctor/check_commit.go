package doctor

import (
	"context"
	"strings"
)

// checkSynchronousCommit looks at what an acknowledged COMMIT is worth.
func checkSynchronousCommit(ctx context.Context, s *session) ([]Finding, error) {
	const id = "synchronous_commit"
	everywhere, found, err := readSettingsEverywhere(ctx, s, id, "synchronous_commit", "synchronous_standby_names")
	if err != nil {
		return nil, err
	}
	var evidence []string
	weak := false
	for _, read := range everywhere {
		level := read.effective("synchronous_commit")
		evidence = append(evidence, level.evidence())
		if f := weakCommit(level, read.effective("synchronous_standby_names")); f != nil {
			weak = true
			found = append(found, *f)
		}
	}
	if !weak {
		found = append(found, sound(id, strings.Join(evidence, "; ")))
	}
	return found, nil
}

// weakCommit returns what is wrong with a server's COMMIT, nil if nothing is.
func weakCommit(level, standbys setting) *Finding {
	switch {
	case level.value == "off":
		reach := "Do, DoStatement and DoBatch turn it on for their own transactions, unless Options.AsyncCommit; DoTx does not"
		if level.node != "" {
			reach = "Do, DoStatement and DoBatch turn it on for the node that they are connected to, and this is another"
		}
		return &Finding{
			ID: IDSynchronousCommitOff, Severity: SeverityWarning,
			What: "synchronous_commit is off: a crash of the server can take back the last calls that were acknowledged, " +
				"each with its effect and its record together, so that nothing is in the database twice. " + reach,
			Evidence: level.evidence(),
			Fix:      level.fix("on"),
		}
	case level.value == "local" && standbys.value != "":
		return &Finding{
			ID: IDSynchronousCommitLocal, Severity: SeverityWarning,
			What: "synchronous_commit is local although there is a synchronous standby: COMMIT does not wait for it, and if it takes over, " + lostByFailover,
			// The library keeps every level but off.
			Evidence: level.evidence() + "; synchronous_standby_names = " + standbys.value,
			Fix:      level.fix("on"),
		}
	default:
		return nil
	}
}

// lostByFailover says what a failover to a standby that lags costs.
const lostByFailover = "the last calls that were acknowledged can be gone, each with its effect and its record together. " +
	"A retry then runs again, and nothing is in the database twice; but what somebody did elsewhere with an answer that is gone stays done"
