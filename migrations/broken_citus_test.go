package migrations_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

// citus fakes what Check reads of Citus 13: its catalogue of distributed tables, with one row for
// tool_dedup or none, and the function that knows shards.
func citus(row string) string {
	sql := `
		SET allow_system_table_mods = on;
		CREATE TABLE pg_catalog.pg_dist_partition (
			logicalrelid   regclass NOT NULL,
			partmethod     "char" NOT NULL,
			partkey        text,
			colocationid   integer NOT NULL DEFAULT 0,
			repmodel       "char" NOT NULL,
			autoconverted  boolean NOT NULL DEFAULT false);
		GRANT SELECT ON pg_catalog.pg_dist_partition TO PUBLIC;
		CREATE FUNCTION pg_catalog.relation_is_a_known_shard(regclass) RETURNS boolean LANGUAGE sql
			AS $$ SELECT $1::text ~ '_1020\d\d$' $$;`
	if row != "" {
		sql += `INSERT INTO pg_catalog.pg_dist_partition VALUES ('tool_dedup', ` + row + `);`
	}
	return sql
}

func brokenCitus() []broken {
	undistributed := []string{"citus_not_distributed"}
	plain := []string{migrations.ProblemPlainTables}
	const (
		byScope = `'h', '{VAR :varno 1 :varattno 1 :vartype 25 :vartypmod -1 :varcollid 950 :varlevelsup 0 :location -1}', 7, 's'`
		others  = `CREATE TABLE "My bookings" (tenant text); CREATE TABLE rates (code text); CREATE TABLE bookings_102008 (tenant text);`
	)
	return []broken{
		{
			name: "CitusDistributedByScopeIsFine",
			sql:  citus(`'h', '{VAR :varno 1 :varattno 1 :vartype 25 :vartypmod -1 :varcollid 950 :varlevelsup 0 :location -1}', 7, 's'`),
		},
		{
			name: "CitusPlainTables",
			sql:  citus(byScope) + others,
			want: plain, left: plain,
		},
		{
			name: "CitusPlainTablesBesideASingleShard",
			sql:  citus(`'n', NULL, 7, 's'`) + others,
			want: plain, left: plain,
		},
		{
			// A distributed table, a reference table, and one in the metadata.
			name: "CitusTablesInTheMetadataAreFine",
			sql: citus(byScope) + others + `CREATE TABLE notes (text text);
				INSERT INTO pg_catalog.pg_dist_partition VALUES ('"My bookings"', 'h', '{VAR :varno 1 :varattno 1}', 7, 's'),
					('rates', 'n', NULL, 3, 't'), ('notes', 'n', NULL, 0, 's')`,
		},
		{
			// Check does not report the plain tables before tool_dedup is distributed.
			name: "CitusPlainTablesBesideAnUndistributedOne",
			sql:  citus("") + others,
			want: undistributed, left: undistributed,
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

// Check names the plain tables, and only those that the role may write to.
func TestCitusPlainTables(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	owner := db.Pool(t)
	role := newRole(t, db, owner)
	exec(t, owner, citus(`'n', NULL, 7, 's'`)+`
		GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup TO `+role+`;
		`+strings.ReplaceAll(others, "%role%", role)+`
		CREATE SCHEMA "Other"; GRANT USAGE ON SCHEMA "Other" TO `+role+`;
		CREATE TABLE "Other".bookings (tenant text); CREATE TABLE only_read (code text);
		CREATE TABLE parts (tenant text) PARTITION BY LIST (tenant); CREATE TABLE part PARTITION OF parts DEFAULT;
		GRANT SELECT ON only_read TO `+role)
	pool := db.Pool(t, as(role))
	require.Empty(t, problems(t, pool, nil))

	exec(t, owner, `GRANT INSERT (tenant) ON "Other".bookings TO `+role+`; GRANT DELETE ON parts TO `+role)
	found := problems(t, pool, nil)
	require.Equal(t, []string{migrations.ProblemPlainTables}, names(found))
	require.Contains(t, found[0].What, `on this node alone: "Other".bookings, public.parts. `)

	exec(t, owner, `DO $$ BEGIN FOR n IN 10..34 LOOP EXECUTE format('CREATE TABLE t%s (a int)', n); END LOOP; END $$`)
	require.Contains(t, problems(t, owner, nil)[0].What, " and 8 more. ")
}

// Citus compares the collations of the columns that tables are distributed by.
func TestCitusAdviceNamesTheCollation(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	exec(t, pool, citus(""))
	require.Contains(t, problems(t, pool, nil)[0].Fix, `text COLLATE "C"`)
}
