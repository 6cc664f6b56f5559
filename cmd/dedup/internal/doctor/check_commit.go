package doctor

import "context"

// checkSynchronousCommit looks at what an acknowledged COMMIT is worth.
func checkSynchronousCommit(ctx context.Context, s *session) ([]Finding, error) {
	read, err := readSettings(ctx, s, "synchronous_commit", "synchronous_standby_names")
	if err != nil {
		return nil, err
	}
	level := read.effective("synchronous_commit")
	standbys := read.effective("synchronous_standby_names")
	switch {
	case level.value == "off":
		return []Finding{{
			ID: IDSynchronousCommitOff, Severity: SeverityWarning,
			What: "synchronous_commit is off: a crash of the server can take back the last calls that were acknowledged, " +
				"each with its effect and its record together, so that nothing is in the database twice. " +
				"Do, DoStatement and DoBatch turn it on for their own transactions, unless Options.AsyncCommit; DoTx does not",
			Evidence: level.evidence(),
			Fix:      level.fix("on"),
		}}, nil
	case level.value == "local" && standbys.value != "":
		return []Finding{{
			ID: IDSynchronousCommitLocal, Severity: SeverityWarning,
			What: "synchronous_commit is local although there is a synchronous standby: COMMIT does not wait for it, and if it takes over, " + lostByFailover,
			// The library keeps every level but off.
			Evidence: level.evidence() + "; synchronous_standby_names = " + standbys.value,
			Fix:      level.fix("on"),
		}}, nil
	default:
		return []Finding{sound("synchronous_commit", level.evidence())}, nil
	}
}

// lostByFailover says what a failover to a standby that lags costs.
const lostByFailover = "the last calls that were acknowledged can be gone, each with its effect and its record together. " +
	"A retry then runs again, and nothing is in the database twice; but what somebody did elsewhere with an answer that is gone stays done"
