package doctor

// Severity says how bad a finding is.
type Severity string

// The severities, worst first.
const (
	// SeverityError: a call can run twice, can lose its record, or is refused.
	SeverityError Severity = "error"
	// SeverityWarning: something else can be lost, or is slow.
	SeverityWarning Severity = "warning"
	// SeverityUnknown: it could not be read, so that nothing is known about it.
	SeverityUnknown Severity = "unknown"
	// SeverityOK: it was read, and is sound.
	SeverityOK Severity = "ok"
)

// severities are all of them, worst first.
func severities() []Severity {
	return []Severity{SeverityError, SeverityWarning, SeverityUnknown, SeverityOK}
}

// Finding is one thing that was looked at, and what it was like.
type Finding struct {
	// ID is stable. For an error and a warning it is one of the constants
	// below or, for the schema, the name of a problem of package migrations.
	// For what is sound or not readable it names what was looked at.
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	// What says what is wrong and what it leads to.
	What string `json:"what,omitempty"`
	// Evidence is what was read.
	Evidence string `json:"evidence,omitempty"`
	// Fix says what to do. Where SQL is all there is to it, it is "run: " and
	// statements.
	Fix string `json:"fix,omitempty"`
}

// The ids of errors and warnings that package migrations has no name for.
const (
	// IDPoolerExecMode: a pooler gives each transaction another server
	// connection, and the exec mode of the URL prepares statements on one of
	// them.
	IDPoolerExecMode = "pooler_exec_mode"
	// IDPoolerStatementMode: a pooler allows no transactions.
	IDPoolerStatementMode = "pooler_statement_mode"
	// IDClientEncoding: the session's client_encoding is not UTF8.
	IDClientEncoding = "client_encoding_not_utf8"

	// IDPrimaryKeyRenamed: the primary key is not named tool_dedup_pkey.
	IDPrimaryKeyRenamed = "primary_key_renamed"
	// IDNotColocated: other distributed tables of a Citus cluster are not
	// co-located with the table.
	IDNotColocated = "citus_not_colocated"
	// IDNoMaintenance: Citus's maintenance daemon does not run for the database
	// on a node.
	IDNoMaintenance = "citus_no_maintenance"

	// IDFsyncOff: fsync is off.
	IDFsyncOff = "fsync_off"
	// IDFullPageWritesOff: full_page_writes is off.
	IDFullPageWritesOff = "full_page_writes_off"
	// IDZeroDamagedPages: zero_damaged_pages is on.
	IDZeroDamagedPages = "zero_damaged_pages_on"
	// IDIgnoreChecksumFailure: ignore_checksum_failure is on.
	IDIgnoreChecksumFailure = "ignore_checksum_failure_on"

	// IDSynchronousCommitOff: synchronous_commit is off.
	IDSynchronousCommitOff = "synchronous_commit_off"
	// IDSynchronousCommitLocal: there is a synchronous standby and COMMIT does
	// not wait for it.
	IDSynchronousCommitLocal = "synchronous_commit_local"
	// IDStandbyAsynchronous: a standby replicates asynchronously.
	IDStandbyAsynchronous = "standby_asynchronous"
	// IDStandbyDisconnected: there is a replication slot that no standby uses.
	IDStandbyDisconnected = "standby_disconnected"
	// IDStandbyMissing: COMMIT waits for more synchronous standbys than are
	// connected.
	IDStandbyMissing = "synchronous_standby_missing"

	// IDSweepBehind: records have been due for long.
	IDSweepBehind = "sweep_behind"
	// IDEffectsParked: operations outside of the database have been parked for
	// long.
	IDEffectsParked = "effects_parked"
	// IDEffectsOpen: operations outside of the database have had no answer for more than a day,
	// and are not parked.
	IDEffectsOpen = "effects_open"
	// IDEffectsTwice: operations outside of the database happened twice.
	IDEffectsTwice = "effects_twice"
	// IDEffectsDue: operations outside of the database have been due for long.
	IDEffectsDue = "effects_due"
	// IDEffectsSweepBehind: operations could have been forgotten for long.
	IDEffectsSweepBehind = "effects_sweep_behind"
	// IDDeadRows: vacuum does not keep up.
	IDDeadRows = "dead_rows"
	// IDIndexBloat: the primary key's index is much larger than its entries.
	IDIndexBloat = "index_bloat"
	// IDAutovacuumOff: autovacuum is off for the server or the table.
	IDAutovacuumOff = "autovacuum_off"
)

// sound is a finding of something that is as it should be.
func sound(id, evidence string) Finding {
	return Finding{ID: id, Severity: SeverityOK, Evidence: evidence}
}

// tryAgain is the fix of what could not be read for reasons of its own.
const tryAgain = "remove what is in the way and run `dedup doctor` again"

// unreadable is a finding of something that nothing is known about.
func unreadable(id, evidence, fix string) Finding {
	return Finding{
		ID: id, Severity: SeverityUnknown,
		What:     "not readable, so nothing is known about it",
		Evidence: evidence,
		Fix:      fix,
	}
}
