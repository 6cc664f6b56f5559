package migrations_test

import "github.com/tooldedup/dedup/migrations"

func brokenColumns() []broken {
	only := func(name string) []string { return []string{name} }
	cases := []broken{
		{
			name: "ColumnMissing",
			sql:  `ALTER TABLE tool_dedup DROP COLUMN arg_digests`,
			want: only(migrations.ProblemColumnMissing),
		},
		{
			name: "ColumnOfTheIdentityMissing",
			sql:  `ALTER TABLE tool_dedup DROP COLUMN tool`,
			want: []string{migrations.ProblemColumnMissing, migrations.ProblemPrimaryKeyMissing},
		},
		{
			name: "ColumnType",
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN result TYPE varchar(1000)`,
			want: only(migrations.ProblemColumnType),
		},
		{
			name: "ColumnTypeWithoutZone",
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN created_at TYPE timestamp`,
			want: only(migrations.ProblemColumnType),
		},
		{
			name: "ColumnTypeAndCollation",
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN key TYPE varchar(40) COLLATE "default"`,
			want: only(migrations.ProblemColumnType),
		},
		{
			name: "ColumnNotNullable",
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN result SET NOT NULL`,
			want: only(migrations.ProblemColumnNotNullable),
		},
		{
			name: "ColumnExtra",
			sql:  `ALTER TABLE tool_dedup ADD COLUMN "Region" text NOT NULL`,
			want: only(migrations.ProblemColumnExtra),
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
			want: only(migrations.ProblemColumnCollation),
		},
	}
	for _, column := range []string{"scope", "tool", "key", "outcome"} {
		cases = append(cases, broken{
			name: "ColumnCollation/" + column,
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN ` + column + ` TYPE text COLLATE "POSIX"`,
			want: only(migrations.ProblemColumnCollation),
		})
	}
	for _, column := range []string{"fingerprint", "outcome", "created_at", "expires_at", "forget_at"} {
		cases = append(cases, broken{
			name: "ColumnNullable/" + column,
			sql:  `ALTER TABLE tool_dedup ALTER COLUMN ` + column + ` DROP NOT NULL`,
			want: only(migrations.ProblemColumnNullable),
		})
	}
	return cases
}
