package migrations_test

import (
	"strings"
)

func brokenConstraints() []broken {
	only := func(name string) []string { return []string{name} }
	const due = `CREATE INDEX tool_dedup_due ON tool_dedup `
	const tenants = `CREATE TABLE tenants (name text PRIMARY KEY COLLATE "C"); ALTER TABLE tool_dedup ADD CONSTRAINT "Of a tenant" FOREIGN KEY (scope) REFERENCES tenants `
	// A CREATE INDEX CONCURRENTLY that failed leaves this.
	const invalid = `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'tool_dedup_due'::regclass`

	cases := []broken{
		{
			name: "PrimaryKeyMissing",
			sql:  `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey`,
			want: only("primary_key_missing"),
		},
		{
			name: "PrimaryKeyTooNarrow",
			sql:  `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey, ADD PRIMARY KEY (scope, key)`,
			want: only("primary_key_columns"),
		},
		{
			name: "PrimaryKeyTooWide",
			sql:  `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey, ADD CONSTRAINT "My key" PRIMARY KEY (scope, tool, key, created_at)`,
			want: only("primary_key_columns"),
		},
		{
			name: "PrimaryKeyInOtherOrderIsFine",
			sql:  `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey, ADD PRIMARY KEY (key, tool, scope) INCLUDE (outcome)`,
		},
		{
			name: "PrimaryKeyDeferrable",
			sql:  `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey, ADD PRIMARY KEY (scope, tool, key) DEFERRABLE`,
			want: only("primary_key_deferrable"),
		},
		{
			name: "PrimaryKeyInvalid",
			sql:  strings.Replace(invalid, "tool_dedup_due", "tool_dedup_pkey", 1),
			want: only("primary_key_invalid"),
		},
		{
			name: "UniqueIndexInsteadOfThePrimaryKey",
			sql:  `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey; CREATE UNIQUE INDEX ids ON tool_dedup (scope, tool, key)`,
			want: []string{"primary_key_missing", "unique_extra"},
		},
		{
			name: "UniqueIndex",
			sql:  `CREATE UNIQUE INDEX "One per fingerprint" ON tool_dedup (scope, fingerprint) WHERE outcome = 'done'`,
			want: only("unique_extra"),
		},
		{
			name: "UniqueConstraint",
			sql:  `ALTER TABLE tool_dedup ADD CONSTRAINT "One" UNIQUE (key)`,
			want: only("unique_extra"),
		},
		{
			name: "ExclusionConstraint",
			sql:  `ALTER TABLE tool_dedup ADD EXCLUDE USING gist (tstzrange(created_at, expires_at) WITH &&)`,
			want: only("unique_extra"),
		},
		{
			name: "InvalidUniqueIndexStillDecides",
			sql: `CREATE UNIQUE INDEX one ON tool_dedup (key);
				UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'one'::regclass`,
			want: only("unique_extra"),
		},
		{
			name: "OtherIndexesAreFine",
			sql:  `CREATE INDEX ON tool_dedup (scope, created_at)`,
		},
		{
			name: "CheckConstraint",
			sql:  `ALTER TABLE tool_dedup ADD CONSTRAINT "Only answers" CHECK (outcome = 'done')`,
			want: only("check_constraint"),
		},
		{
			name: "CheckConstraintOfNewRows",
			sql:  `ALTER TABLE tool_dedup ADD CHECK (result IS NOT NULL) NOT VALID`,
			want: only("check_constraint"),
		},
		{
			name: "ForeignKeyThatDeletesRecords",
			sql:  tenants + `ON DELETE CASCADE`,
			want: only("foreign_key"),
		},
		{
			name: "ForeignKeyThatChangesRecords",
			sql:  tenants + `ON UPDATE CASCADE`,
			want: only("foreign_key"),
		},
		{
			name: "ForeignKeyThatOnlyRefusesIsFine",
			sql:  tenants + `ON DELETE RESTRICT`,
		},
		{
			name: "DueIndexMissing",
			sql:  `DROP INDEX tool_dedup_due`,
			want: only("due_index_missing"),
		},
		{
			name: "DueIndexOfAnotherTable",
			sql:  `DROP INDEX tool_dedup_due; CREATE SCHEMA other; CREATE TABLE other.t (a int); CREATE INDEX tool_dedup_due ON other.t (a)`,
			want: only("due_index_missing"),
		},
		{
			name: "DueIndexInvalid",
			sql:  invalid,
			want: only("due_index_invalid"),
		},
		{
			name: "DueIndexOnAColumn",
			sql:  `DROP INDEX tool_dedup_due; ` + due + `(forget_at)`,
			want: only("due_index_other"),
		},
		{
			name: "DueIndexOfAnotherExpression",
			sql:  `DROP INDEX tool_dedup_due; ` + due + `((CASE WHEN result IS NULL THEN expires_at ELSE forget_at END))`,
			want: only("due_index_other"),
		},
		{
			name: "DueIndexPartial",
			sql:  `DROP INDEX tool_dedup_due; ` + due + `((CASE WHEN result IS NULL THEN forget_at ELSE expires_at END)) WHERE scope <> 'x'`,
			want: only("due_index_other"),
		},
		{
			name: "DueIndexHash",
			sql:  `DROP INDEX tool_dedup_due; ` + due + `USING hash ((CASE WHEN result IS NULL THEN forget_at ELSE expires_at END))`,
			want: only("due_index_other"),
		},
	}
	return cases
}
