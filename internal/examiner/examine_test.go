package examiner_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestExamineIsOneRoundTrip, whatever the pool's exec mode.
func TestExamineIsOneRoundTrip(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			proxy, err := faultproxy.New(db.URL)
			require.NoError(t, err)
			t.Cleanup(proxy.Close)
			config, err := pgx.ParseConfig(proxy.URL())
			require.NoError(t, err)
			config.DefaultQueryExecMode = mode
			conn, err := pgx.ConnectConfig(t.Context(), config)
			require.NoError(t, err)
			defer conn.Close(context.WithoutCancel(t.Context()))

			proxy.Reset()
			x, err := examiner.Examine(t.Context(), conn, "public")
			require.NoError(t, err)
			require.Empty(t, x.Problems)
			require.Equal(t, examiner.Postgres, x.Engine)
			require.Equal(t, 1, proxy.Snapshot().RoundTrips)
		})
	}
}

// TestExamineInAnySession: the result does not depend on the session's settings.
func TestExamineInAnySession(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t, func(config *pgxpool.Config) {
		for name, value := range map[string]string{
			"datestyle": "German, DMY", "timezone": "Asia/Kathmandu", "search_path": "nowhere", "standard_conforming_strings": "off",
			"extra_float_digits": "-15", "default_transaction_isolation": "serializable", "default_transaction_read_only": "on",
		} {
			config.ConnConfig.RuntimeParams[name] = value
		}
	})
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	x, err := examiner.Examine(t.Context(), conn.Conn(), "public")
	require.NoError(t, err)
	require.Empty(t, x.Problems)
}

// TestExamineTakesNoLock: another session can lock the table and its partitions, and a caller's
// transaction keeps no lock on them.
func TestExamineTakesNoLock(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), `DROP TABLE tool_dedup;
		CREATE TABLE tool_dedup (scope text, tool text, key text, PRIMARY KEY (scope, tool, key)) PARTITION BY HASH (scope);
		CREATE TABLE part PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 1, REMAINDER 0);
		CREATE INDEX ON tool_dedup ((lower(key)))`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	other, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer other.Rollback(context.WithoutCancel(t.Context()))
	_, err = other.Exec(t.Context(), `LOCK TABLE tool_dedup IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `SET LOCAL lock_timeout = '1ms'`)
	require.NoError(t, err)
	x, err := examiner.Examine(t.Context(), tx.Conn(), "public")
	require.NoError(t, err)
	require.Empty(t, x.Problems)
	var held int
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks
		WHERE pid = pg_backend_pid() AND relation IN ('tool_dedup'::regclass, 'part'::regclass)`).Scan(&held))
	require.Zero(t, held)
}

// TestExamineLetsBe: what does not act on records, and what Check finds that lets a record be
// written as it is, keeps no effect from running. TestCheckBroken of package migrations has what
// Check does not find either.
func TestExamineLetsBe(t *testing.T) {
	t.Parallel()

	conn, err := pgx.Connect(t.Context(), pgtest.New(t).URL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	const nothing = `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';`
	for name, sql := range map[string]string{
		"TriggerAfterInsert":      nothing + `CREATE TRIGGER t AFTER INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing()`,
		"TriggerForTheStatement":  nothing + `CREATE TRIGGER t BEFORE INSERT ON tool_dedup FOR EACH STATEMENT EXECUTE FUNCTION nothing()`,
		"DisabledRule":            `CREATE RULE r AS ON INSERT TO tool_dedup DO INSTEAD NOTHING; ALTER TABLE tool_dedup DISABLE RULE r`,
		"RuleOfDeletes":           `CREATE RULE r AS ON DELETE TO tool_dedup DO INSTEAD NOTHING`,
		"ColumnOfAnotherType":     `ALTER TABLE tool_dedup ALTER COLUMN result TYPE varchar(1000)`,
		"NoAudit":                 `DROP TABLE tool_dedup_audit`,
		"UnloggedTableOfChildren": `CREATE UNLOGGED TABLE child () INHERITS (tool_dedup)`,
	} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err, name)
		x, err := examiner.Examine(t.Context(), conn, "public")
		require.NoError(t, err, name)
		require.Empty(t, x.Problems, name)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// TestExamineTemporary: a temporary table goes with its session.
func TestExamineTemporary(t *testing.T) {
	t.Parallel()

	conn, err := pgx.Connect(t.Context(), pgtest.New(t).URL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), `CREATE TEMPORARY TABLE tool_dedup (LIKE public.tool_dedup INCLUDING ALL)`)
	require.NoError(t, err)
	var schema string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT pg_my_temp_schema()::regnamespace::text`).Scan(&schema))
	x, err := examiner.Examine(t.Context(), conn, schema)
	require.NoError(t, err)
	require.Equal(t, []string{schema + ".tool_dedup is temporary: it ends with its session, and every call of before can run again"}, x.Problems)
}
