package contract_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestStatementImpatientReplays: while one replay is on its way, another that may
// not wait has its answer too. No twin is in flight.
func TestStatementImpatientReplays(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	_, err := dedup.DoStatement[ticket](ctx, f.direct(t), call("k"), leave("k"))
	require.NoError(t, err)
	held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: isCombined})
	first := startStatement(ctx, f.d, call("k"), leave("k"))
	require.NoError(t, held.Wait(ctx))

	impatient := call("k")
	impatient.MaxWait = -1
	second, err := dedup.DoStatement[ticket](ctx, f.d, impatient, leave("k"))
	require.NoError(t, err)
	require.True(t, second.Replayed)
	held.Release()
	require.True(t, receive(t, ctx, first).require(t).Replayed)
	require.Equal(t, 1, f.runs(t))
}

// TestStatementUnsendable has arguments that pgx can make nothing of: nothing was
// sent, and that is what is answered.
func TestStatementUnsendable(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil)
			_, err := dedup.DoStatement[ticket](ctx, f.d, call("warm"), leave("warm"))
			require.NoError(t, err)
			stmt := dedup.SQL(effectSQL, make(chan int))
			for range 2 {
				_, err = dedup.DoStatement[ticket](ctx, f.d, call("k"), stmt)
				require.Error(t, err)
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
				require.False(t, dedup.IsRetryable(err), "%v", err)
			}
			require.Empty(t, events[dedup.RetriedData](f.events))
			_, err = dedup.DoStatement[ticket](ctx, f.d, call("k"), leave("k"))
			require.NoError(t, err)
			require.Equal(t, 1, f.effects(t, "k"))
		})
	}
}

// TestStatementSynchronousCommit: a role that has it off has it on for the
// statement, and off again behind it.
func TestStatementSynchronousCommit(t *testing.T) {
	t.Parallel()

	type setting struct {
		Value string `json:"value"`
	}
	stmt := dedup.SQL(`INSERT INTO effects VALUES (current_setting('synchronous_commit')) RETURNING ref AS value`)
	for _, c := range []struct {
		session string
		way     callWay
		want    string
	}{
		{session: "off", want: "on"},
		{session: "off", way: viaSeparate, want: "on"},
		{session: "local", want: "local"},
		{session: "remote_apply", want: "remote_apply"},
		{session: "on", want: "on"},
	} {
		t.Run(fmt.Sprintf("%s-%d", c.session, c.way), func(t *testing.T) {
			t.Parallel()
			p := profile{isolation: pgx.ReadCommitted, way: c.way}
			ctx, f := p.setup(t, nil, poolOfOne, func(config *pgxpool.Config) {
				config.ConnConfig.RuntimeParams["synchronous_commit"] = c.session
			})
			got, err := dedup.DoStatement[setting](ctx, f.d, call("k"), stmt)
			require.NoError(t, err)
			require.Equal(t, c.want, got.Value.Value)
			var after string
			require.NoError(t, f.pool.QueryRow(ctx, `SHOW synchronous_commit`).Scan(&after))
			require.Equal(t, c.session, after)
		})
	}
}

// TestStatementGoesApart has what one statement cannot do: it goes as two, with
// the same answers.
func TestStatementGoesApart(t *testing.T) {
	t.Parallel()

	backslash := dedup.SQL(`INSERT INTO effects VALUES ('a\') RETURNING 1 AS id, ref AS title`)
	// In a session of old, this text is a string that goes on; it must not be
	// read as if it had ended.
	old := dedup.SQL(`INSERT INTO effects VALUES ('\\') RETURNING 1 AS id, ref AS title`)
	for name, c := range map[string]struct {
		opts  dedup.Options
		setup string
		conf  func(*pgxpool.Config)
		stmt  dedup.Statement
		trips int
	}{
		"Whole":    {stmt: backslash, trips: 1},
		"Separate": {stmt: backslash, trips: 3, opts: dedup.Options{Retention: apart(true)}},
		// What is its own transaction may arrive late, and its record has to outlive that.
		"ShortRetention": {stmt: backslash, trips: 3, opts: dedup.Options{Retention: dedup.Retention{Result: time.Minute, Tombstone: time.Hour - time.Minute - 1000}}},
		"LongRetention":  {stmt: backslash, trips: 1, opts: dedup.Options{Retention: dedup.Retention{Result: time.Minute, Tombstone: time.Hour - time.Minute}}},
		"ClaimFirst":     {stmt: backslash, trips: 3, opts: dedup.Options{Order: dedup.ClaimFirst}},
		"RepeatableRead": {stmt: backslash, trips: 3, opts: dedup.Options{Isolation: pgx.RepeatableRead}},
		"Serializable":   {stmt: backslash, trips: 3, opts: dedup.Options{Isolation: pgx.Serializable}},
		"OldStrings": {stmt: old, trips: 3, conf: func(config *pgxpool.Config) {
			config.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
		}},
		"Citus": {stmt: backslash, trips: 3, setup: `INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
			VALUES (99999, 'citus', 10, 11, false, '12')`},
		"OtherEngine": {stmt: backslash, trips: 3, setup: `
			CREATE SCHEMA engine; CREATE FUNCTION engine.version() RETURNS text LANGUAGE sql AS $$SELECT 'CockroachDB CCL v24.1'$$;
			ALTER FUNCTION pg_catalog.version() RENAME TO own_version;
			CREATE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql STABLE AS $$SELECT engine.version()$$`},
		"Yugabyte": {stmt: backslash, trips: 3, setup: `
			ALTER FUNCTION pg_catalog.version() RENAME TO own_version;
			CREATE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql STABLE AS $$SELECT 'PostgreSQL 11.2-YB-2.20.0.0-b0 on x86_64'$$`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := c.conf
			if conf == nil {
				conf = func(*pgxpool.Config) {}
			}
			ctx, f := plain.setup(t, nil)
			if c.setup != "" {
				f.exec(t, `SET allow_system_table_mods = on; `+c.setup, pgx.QueryExecModeSimpleProtocol)
			}
			proxy, pool := f.proxied(t, conf)
			d := newDeduper(t, pool, &c.opts)
			for i := range 3 {
				key := fmt.Sprint(i)
				proxy.Reset()
				for _, replayed := range []bool{false, true} {
					result, err := dedup.DoStatement[ticket](ctx, d, call(key), c.stmt)
					require.NoError(t, err)
					require.Equal(t, replayed, result.Replayed)
					if !replayed && i > 0 {
						require.Equal(t, c.trips, proxy.Snapshot().RoundTrips)
					}
				}
			}
			require.Equal(t, 3, scalar[int](t, f.bundle, `SELECT count(*) FROM effects`))
		})
	}
}

// TestStatementThatTheServerRefuses: what the server says of a text is the call's own error.
func TestStatementThatTheServerRefuses(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	for sql, code := range map[string]string{
		`SELECT 1 +`:                   "42601",
		`SELECT * FROM nowhere`:        "42P01",
		`SELECT 1 AS a INTO elsewhere`: "42601",
		`SELECT 'x'::int AS a`:         "22P02",
		`SELECT $1::int, $3::int`:      "42P18",
	} {
		stmt := dedup.SQL(sql)
		if code == "42P18" {
			stmt.Args = []any{1, nil, 3}
		}
		for range 2 {
			_, err := dedup.DoStatement[ticket](ctx, f.d, call("own"), stmt)
			require.Error(t, err, sql)
			requireState(t, err, code)
			require.False(t, dedup.IsRetryable(err), sql)
		}
	}
	require.Zero(t, f.records(t))
	require.Zero(t, f.effects(t, "k"))
}

// TestContractStatements holds DoStatement to what Do is held to, with the same
// cases and the same effects.
func TestContractStatements(t *testing.T) {
	t.Parallel()

	runContract(t, profile{isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeCacheStatement})
}

// TestLongContractStatements is TestContractStatements in the other exec modes, and with
// effect and record sent separately.
func TestLongContractStatements(t *testing.T) {
	t.Parallel()

	runContract(t,
		profile{isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeCacheDescribe},
		profile{isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeDescribeExec},
		profile{isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeExec},
		profile{isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeSimpleProtocol},
		profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeCacheStatement},
		profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeCacheDescribe},
		profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeDescribeExec},
		profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeExec},
		profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeSimpleProtocol},
	)
}

// TestPuppetIsOneStatement makes sure that the contract does try what it says.
func TestPuppetIsOneStatement(t *testing.T) {
	t.Parallel()

	for way, trips := range map[callWay]int{viaStatement: 1, viaSeparate: 3} {
		ctx, f, proxy := proxied(t, profile{isolation: pgx.ReadCommitted, way: way}, nil)
		for _, key := range []string{"warm", "k"} {
			proxy.Reset()
			result, err := f.do(ctx, f.d, call(key), (&tool{ref: key}).run)
			require.NoError(t, err)
			require.Equal(t, ticket{ID: 1, Title: key}, result.Value)
		}
		require.Equal(t, trips, proxy.Snapshot().RoundTrips)
	}
}
