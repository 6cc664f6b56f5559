package migrations_test

import "github.com/tooldedup/dedup/migrations"

// citus fakes Citus's catalogue of distributed tables, as Citus 13 defines it,
// with one row for tool_dedup, or none.
func citus(row string) string {
	sql := `
		SET allow_system_table_mods = on;
		CREATE TABLE pg_catalog.pg_dist_partition (
			logicalrelid   regclass NOT NULL,
			partmethod     "char" NOT NULL,
			partkey        text,
			colocationid   integer NOT NULL DEFAULT 0,
			repmodel       "char" NOT NULL,
			autoconverted  boolean NOT NULL DEFAULT false);`
	if row != "" {
		sql += `INSERT INTO pg_catalog.pg_dist_partition VALUES ('tool_dedup', ` + row + `);`
	}
	return sql
}

func brokenCitus() []broken {
	undistributed := []string{migrations.ProblemNotDistributed}
	return []broken{
		{
			name: "CitusDistributedByScopeIsFine",
			sql:  citus(`'h', '{VAR :varno 1 :varattno 1 :vartype 25 :vartypmod -1 :varcollid 950 :varlevelsup 0 :location -1}', 7, 's'`),
		},
		{
			name: "CitusSingleShardOfADistributedSchemaIsFine",
			sql:  citus(`'n', NULL, 7, 's'`),
		},
		{
			name: "CitusNotDistributed",
			sql:  citus(""),
			want: undistributed, left: undistributed,
		},
		{
			name: "CitusDistributedByKey",
			sql:  citus(`'h', '{VAR :varno 1 :varattno 3 :vartype 25 :vartypmod -1 :varcollid 950 :varlevelsup 0 :location -1}', 7, 's'`),
			want: undistributed, left: undistributed,
		},
		{
			name: "CitusReferenceTable",
			sql:  citus(`'n', NULL, 7, 't'`),
			want: undistributed, left: undistributed,
		},
		{
			name: "CitusLocalTable",
			sql:  citus(`'n', NULL, 0, 's'`),
			want: undistributed, left: undistributed,
		},
		{
			name: "CitusWithoutAVersionTable",
			sql:  citus("") + `DROP TABLE tool_dedup_version`,
			want: undistributed, left: undistributed,
		},
	}
}
