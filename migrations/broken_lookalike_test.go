package migrations_test

// brokenLookalike are databases whose tool_lookalike is not as the migrations
// make it.
func brokenLookalike() []broken {
	missing, wrong := []string{"lookalike_missing"}, []string{"lookalike_broken"}
	return []broken{
		{name: "LookalikeMissing", sql: `DROP TABLE tool_lookalike`, want: missing, left: missing},
		{
			name: "LookalikeMissingInAPlainSchema", sql: `DROP TABLE tool_lookalike, tool_dedup_version`,
			want: missing, left: missing,
		},
		{
			name: "LookalikeIsAView", sql: `DROP TABLE tool_lookalike; CREATE VIEW tool_lookalike AS SELECT 1`,
			want: missing, left: missing,
		},
		{
			name: "LookalikeWithoutKey", sql: `ALTER TABLE tool_lookalike DROP CONSTRAINT tool_lookalike_pkey`,
			want: wrong,
		},
		{
			name: "LookalikeWithAnotherKey",
			sql:  `ALTER TABLE tool_lookalike DROP CONSTRAINT tool_lookalike_pkey, ADD PRIMARY KEY (likeness)`,
			want: wrong,
		},
		{name: "LookalikeWithoutAColumn", sql: `ALTER TABLE tool_lookalike DROP COLUMN earlier_at`, want: wrong},
		{
			name: "LookalikeWithASwallowingTrigger",
			sql:  nothing + `CREATE TRIGGER swallow BEFORE INSERT ON tool_lookalike FOR EACH ROW EXECUTE FUNCTION nothing()`,
			want: wrong,
		},
		{name: "LookalikeWithARule", sql: `CREATE RULE swallow AS ON INSERT TO tool_lookalike DO INSTEAD NOTHING`, want: wrong},
		// It may be emptied at any time.
		{name: "LookalikeUnloggedIsFine", sql: `ALTER TABLE tool_lookalike SET UNLOGGED`},
	}
}
