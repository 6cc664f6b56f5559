package migrations_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

// others grants what a role needs on the tables beside tool_dedup.
const others = `GRANT SELECT, INSERT, UPDATE, DELETE ON tool_effect, tool_dedup_stat TO %role%; GRANT SELECT, INSERT ON tool_dedup_audit TO %role%; `

// Check reports what the current role may not do, whoever owns the table.
func TestCheckAsRole(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name string
		// sql is run by the owner; %role% stands for the role.
		sql  string
		want []string
		left []string
	}{
		{
			name: "MayEverything",
			sql:  `GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup TO %role%`,
		},
		{
			name: "MayEverythingColumnByColumn",
			sql: `GRANT SELECT (scope, tool, key, fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at),
				INSERT (scope, tool, key, fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at),
				UPDATE (scope, tool, key, fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at) ON tool_dedup TO %role%;
				ALTER TABLE tool_dedup ADD COLUMN theirs text;
				GRANT DELETE ON tool_dedup TO %role%`,
		},
		{
			name: "MayNothing",
			sql:  `SELECT`,
			want: []string{"privileges_missing"},
		},
		{
			name: "MayNotUseTheSchema",
			sql: `GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup TO %role%;
				REVOKE USAGE ON SCHEMA public FROM PUBLIC`,
			want: []string{"schema_usage_missing"},
		},
		{
			name: "MayNotUseTheSchemaOfAVersionTable",
			sql: `GRANT SELECT ON tool_dedup_version TO %role%; DELETE FROM tool_dedup_version;
				REVOKE USAGE ON SCHEMA public FROM PUBLIC`,
			// Check sees the pending migrations once the role may read the table.
			want: []string{"schema_usage_missing", "privileges_missing"},
			left: []string{migrations.ProblemMigrationsPending},
		},
		{
			name: "MaySeeNoVersions",
			sql: `GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup TO %role%;
				DELETE FROM tool_dedup_version`,
		},
		{
			name: "RowSecurity",
			sql: `GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup TO %role%;
				ALTER TABLE tool_dedup ENABLE ROW LEVEL SECURITY`,
			want: []string{migrations.ProblemRowSecurity},
			left: []string{migrations.ProblemRowSecurity},
		},
		{
			name: "RowSecurityOfTheOwner",
			sql: `ALTER TABLE tool_dedup OWNER TO %role%;
				ALTER TABLE tool_dedup ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`,
			want: []string{migrations.ProblemRowSecurity},
			left: []string{migrations.ProblemRowSecurity},
		},
		{
			name: "RowSecurityThatTheOwnerEscapesIsFine",
			sql: `ALTER TABLE tool_dedup OWNER TO %role%;
				ALTER TABLE tool_dedup ENABLE ROW LEVEL SECURITY`,
		},
		{
			name: "RowSecurityBypassedIsFine",
			sql: `GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup TO %role%;
				ALTER TABLE tool_dedup ENABLE ROW LEVEL SECURITY; ALTER ROLE %role% BYPASSRLS`,
		},
	}
	for table, want := range map[string]string{
		"tool_dedup": "privileges_missing", "tool_effect": "effect_broken", "tool_dedup_audit": "audit_broken", "tool_dedup_stat": "stat_broken",
	} {
		for _, privilege := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			if table == "tool_dedup_audit" && (privilege == "UPDATE" || privilege == "DELETE") {
				continue // nothing changes its lines
			}
			tests = append(tests, struct {
				name       string
				sql        string
				want, left []string
			}{
				name: "MayNot" + privilege + table,
				sql:  `GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup TO %role%; REVOKE ` + privilege + ` ON ` + table + ` FROM %role%`,
				want: []string{want},
			})
		}
	}

	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			owner := db.Pool(t)
			role := newRole(t, db, owner)
			exec(t, owner, strings.ReplaceAll(others+tc.sql, "%role%", role))
			pool := db.Pool(t, as(role))

			found := problems(t, pool, nil)
			require.Equal(t, tc.want, names(found))
			repair(t, owner, found)
			require.Equal(t, tc.left, names(problems(t, pool, nil)), "after the repair")
		})
	}
}

func TestCheckReadOnly(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	pool := db.Pool(t, param("default_transaction_read_only", "on"))
	require.Equal(t, []string{"read_only"}, names(problems(t, pool, nil)))
}

// In a session with the role of a replica other triggers and rules act.
func TestCheckInASessionOfAReplica(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	pool := db.Pool(t, param("session_replication_role", "replica"))
	exec(t, pool, nothing+`
		CREATE TRIGGER ordinary BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing();
		CREATE RULE ordinary AS ON DELETE TO tool_dedup DO INSTEAD NOTHING`)
	require.Empty(t, problems(t, pool, nil))
	exec(t, pool, `ALTER TABLE tool_dedup ENABLE REPLICA TRIGGER ordinary; ALTER TABLE tool_dedup ENABLE REPLICA RULE ordinary`)
	require.Equal(t, []string{"trigger", "rule"}, names(problems(t, pool, nil)))
	require.Empty(t, problems(t, db.Pool(t), nil), "in an ordinary session they do not act")
}

func TestCheckEncoding(t *testing.T) {
	t.Parallel()

	// A second database, with a name by which it is known as a test's.
	db := pgtest.NewEmpty(t)
	name := db.Name[:40] + "_latin1"
	admin := db.Pool(t)
	exec(t, admin, `CREATE DATABASE `+name+` TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'`)
	t.Cleanup(func() { drop(t, admin, name) })
	pool := db.Pool(t, database(name))

	require.Equal(t, []string{"encoding_not_utf8", migrations.ProblemTableMissing}, names(problems(t, pool, nil)))
	sql, err := migrations.SQL()
	require.NoError(t, err)
	exec(t, pool, sql)
	require.Equal(t, []string{"encoding_not_utf8"}, names(problems(t, pool, nil)))
}
