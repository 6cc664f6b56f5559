package migrations_test

func brokenColumns() []broken {
	only := func(name string) []string { return []string{name} }
	cases := []broken{
		{
			name: "ColumnMissing",
			sql:  `ALTER TABLE tool_dedup DROP COLUMN arg_digests`,
			want: only("column_missing"),
		},
		{
			name: "ColumnOfTheIdentityMissing",
			sql:  `ALTER TABLE tool_dedup DROP COLUMN tool`,
			want: []string{"column_missing", "primary_key_missing"},
		},
		{
			name: "ColumnType",
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN result TYPE varchar(1000)`,
			want: only("column_type"),
		},
		{
			name: "ColumnTypeWithoutZone",
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN created_at TYPE timestamp`,
			want: only("column_type"),
		},
		{
			name: "ColumnTypeAndCollation",
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN key TYPE varchar(40) COLLATE "default"`,
			want: only("column_type"),
		},
		{
			name: "ColumnNotNullable",
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN result SET NOT NULL`,
			want: only("column_not_nullable"),
		},
		{
			name: "ColumnExtra",
			sql:  `ALTER TABLE tool_dedup ADD COLUMN "Region" text NOT NULL`,
			want: only("column_extra"),
		},
		{
			name: "ColumnsThatFillThemselvesAreFine",
			sql: `ALTER TABLE tool_dedup
				ADD COLUMN region text,
				ADD COLUMN zone text NOT NULL DEFAULT 'a',
				ADD COLUMN id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
				ADD COLUMN short text NOT NULL GENERATED ALWAYS AS (left(tool, 3)) STORED`,
		},
		{
			name: "CollationThatOnlyHasTheName",
			sql:  `CREATE COLLATION public."C" FROM "POSIX"; ALTER TABLE tool_dedup ALTER COLUMN key TYPE text COLLATE public."C"`,
			want: only("column_collation"),
		},
	}
	for _, column := range []string{"scope", "tool", "key", "outcome"} {
		cases = append(cases, broken{
			name: "ColumnCollation/" + column,
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN ` + column + ` TYPE text COLLATE "POSIX"`,
			want: only("column_collation"),
		})
	}
	for _, column := range []string{"fingerprint", "outcome", "created_at", "expires_at", "forget_at"} {
		cases = append(cases, broken{
			name: "ColumnNullable/" + column,
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN ` + column + ` DROP NOT NULL`,
			want: only("column_nullable"),
		})
	}
	return cases
}
