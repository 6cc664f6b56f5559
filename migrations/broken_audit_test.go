package migrations_test

// brokenAudit are databases whose tables for operators are not as the migrations make them.
func brokenAudit() []broken {
	noAudit, badAudit := []string{"audit_missing"}, []string{"audit_broken"}
	noStat, badStat := []string{"stat_missing"}, []string{"stat_broken"}
	return []broken{
		{name: "AuditMissing", sql: `DROP TABLE tool_dedup_audit`, want: noAudit, left: noAudit},
		{name: "AuditMissingInAPlainSchema", sql: `DROP TABLE tool_dedup_audit, tool_dedup_version`, want: noAudit, left: noAudit},
		{name: "AuditWithoutKey", sql: `ALTER TABLE tool_dedup_audit DROP CONSTRAINT tool_dedup_audit_pkey`, want: badAudit},
		{name: "AuditWithoutAColumn", sql: `ALTER TABLE tool_dedup_audit DROP COLUMN actor`, want: badAudit},
		{name: "AuditWithARule", sql: `CREATE RULE swallow AS ON INSERT TO tool_dedup_audit DO INSTEAD NOTHING`, want: badAudit},

		{name: "StatMissing", sql: `DROP TABLE tool_dedup_stat`, want: noStat, left: noStat},
		{name: "StatMissingInAPlainSchema", sql: `DROP TABLE tool_dedup_stat, tool_dedup_version`, want: noStat, left: noStat},
		{name: "StatWithoutKey", sql: `ALTER TABLE tool_dedup_stat DROP CONSTRAINT tool_dedup_stat_pkey`, want: badStat},
		{name: "StatWithoutAColumn", sql: `ALTER TABLE tool_dedup_stat DROP COLUMN waited`, want: badStat},
		// Its rows may be lost.
		{name: "StatUnloggedIsFine", sql: `ALTER TABLE tool_dedup_stat SET UNLOGGED`},
	}
}
