package doctor_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/doctor"
	"github.com/tooldedup/dedup/internal/pgbouncer"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// throughPooler starts a PgBouncer and returns the way through it to a database.
func throughPooler(t *testing.T, url string, settings ...string) string {
	t.Helper()
	through, err := pgbouncer.New(t, url, settings...).URL(url)
	require.NoError(t, err)
	return through
}

// poolerScenarios are a PgBouncer, and the exec modes of pgx through it.
func poolerScenarios() []scenario {
	at := func(poolMode, execMode string, settings ...string) func(*testing.T) place {
		return func(t *testing.T) place {
			db := pgtest.New(t)
			through := throughPooler(t, db.URL, append(settings, "pool_mode = "+poolMode)...)
			if execMode != "" {
				through = withParam(t, through, "default_query_exec_mode", execMode)
			}
			return place{url: through, owner: db.URL, before: examine(t, db.URL)}
		}
	}
	// turns is a pooler with so many server connections, each of which serves
	// every so many-th transaction: the doctor's two clients must not get theirs
	// back each time.
	turns := func(servers int) func(*testing.T) place {
		return func(t *testing.T) place {
			p := at("transaction", "cache_statement", "server_round_robin = 1", fmt.Sprintf("default_pool_size = %d", servers))(t)
			openServers(t, p.url, servers)
			return p
		}
	}
	wrong := []string{"pooler_exec_mode"}
	const pooler = "a transaction pooler that does not track prepared statements; exec mode "
	return []scenario{
		{name: "PoolerWithTheDefaultExecMode", place: at("transaction", ""), errors: wrong, evidence: pooler + "cache_statement"},
		{name: "PoolerWithAServerForEachClient", place: turns(2), errors: wrong, evidence: pooler + "cache_statement"},
		{name: "PoolerWithThreeServersThatTakeTurns", place: turns(3), errors: wrong, evidence: pooler + "cache_statement"},
		{name: "PoolerWithFourServersThatTakeTurns", place: turns(4), errors: wrong, evidence: pooler + "cache_statement"},
		{name: "PoolerWithFiveServersThatTakeTurns", place: turns(5), errors: wrong, evidence: pooler + "cache_statement"},
		{name: "PoolerWithOneConnection", place: at("transaction", "", "default_pool_size = 1"), errors: wrong, evidence: pooler + "cache_statement"},
		{name: "PoolerWithDescribeExec", place: at("transaction", "describe_exec"), errors: wrong, evidence: pooler + "describe_exec"},
		{name: "PoolerWithExecIsFine", place: at("transaction", "exec"), evidence: pooler + "exec"},
		{name: "PoolerWithCacheDescribeIsFine", place: at("transaction", "cache_describe"), evidence: pooler + "cache_describe"},
		{name: "PoolerWithSimpleProtocolIsFine", place: at("transaction", "simple_protocol"), evidence: pooler + "simple_protocol"},
		{name: "PoolerOfSessionsIsFine", place: at("session", ""), evidence: "one that keeps a server connection for each client"},
		{
			name: "PoolerOfStatements", place: at("statement", ""),
			errors: []string{"pooler_statement_mode"}, evidence: "transaction blocks not allowed in statement pooling mode",
			unknown: []string{"client_encoding", "schema", "primary_key_name", "citus", "citus_maintenance", "crash_safety", "synchronous_commit", "replication", "sweep", "effects", "effects_sweep", "vacuum"},
		},
	}
}

// openServers has a pooler open so many connections to its server, which it keeps.
func openServers(t *testing.T, through string, servers int) {
	t.Helper()
	for range servers {
		conn, err := pgx.Connect(t.Context(), withParam(t, through, "default_query_exec_mode", "exec"))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	}
}

// describe_exec is an error with every pooler. The test sends the messages of that mode, and
// another client's messages between them.
func TestDescribeExecRunsTheStatementOfAnother(t *testing.T) {
	t.Parallel()

	through := throughPooler(t, pgtest.NewEmpty(t).URL)
	var clients [2]*pgx.Conn
	for i := range clients {
		conn, err := pgx.Connect(t.Context(), through)
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		clients[i] = conn
	}
	one, two := clients[0].PgConn(), clients[1].PgConn()
	_, err := one.Prepare(t.Context(), "", "SELECT 'of one'", nil)
	require.NoError(t, err)
	_, err = two.Prepare(t.Context(), "", "SELECT 'of two'", nil)
	require.NoError(t, err)
	result := one.ExecPrepared(t.Context(), "", nil, nil, nil).Read()
	require.NoError(t, result.Err)
	require.Equal(t, "of two", string(result.Rows[0][0]))
}

// What the doctor prepares to see how the pooler takes it is gone afterwards.
func TestPoolerIsLeftAsItWas(t *testing.T) {
	t.Parallel()

	through := throughPooler(t, pgtest.New(t).URL, "default_pool_size = 1")
	require.Contains(t, examine(t, through).with(doctor.SeverityError), "pooler_exec_mode")
	await(t, withParam(t, through, "default_query_exec_mode", "exec"),
		"SELECT count(*) = 0 FROM pg_prepared_statements WHERE name LIKE 'dedup_doctor%'")
}
