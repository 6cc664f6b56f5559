package contract_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestStatementCancelled: there is no COMMIT to wait for, so that a caller that
// gives up does not know.
func TestStatementCancelled(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, profile{isolation: pgx.ReadCommitted, mode: mode}, nil)
			f.countRuns(t)
			_, err := dedup.DoStatement[ticket](ctx, f.d, call("warm"), leave("warm"))
			require.NoError(t, err)

			calling, cancel := context.WithCancel(ctx)
			late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Where: isCombined})
			pending := startStatement(calling, f.d, call("k"), leave("k"))
			require.NoError(t, late.Wait(ctx)) // committed, and not answered
			cancel()
			a := receive(t, ctx, pending)
			require.ErrorIs(t, a.err, dedup.ErrOutcomeUnknown)
			require.ErrorIs(t, a.err, context.Canceled)
			require.True(t, dedup.IsRetryable(a.err))

			retry, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), leave("k"))
			require.NoError(t, err)
			require.True(t, retry.Replayed)
			require.Equal(t, 2, f.runs(t))
			require.Equal(t, 1, f.effects(t, "k"))

			// Before it is sent, it is known not to have happened.
			_, err = dedup.DoStatement[ticket](calling, f.d, call("never"), leave("never"))
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
		})
	}
}

// TestStatementImpatientReplays: while one replay is on its way, another that may
// not wait has its answer too. No twin is in flight.
func TestStatementImpatientReplays(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	f.countRuns(t)
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
			f.countRuns(t)
			_, err := dedup.DoStatement[ticket](ctx, f.d, call("warm"), leave("warm"))
			require.NoError(t, err)
			stmt := dedup.SQL(leaveSQL, make(chan int))
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

// TestStatementDuplicateWritesNothing: duplicates neither run the effect nor touch a row.
func TestStatementDuplicateWritesNothing(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.countRuns(t)
	f.exec(t, `ALTER TABLE tool_dedup SET (autovacuum_enabled = off)`)
	replay := func() {
		_, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), leave("k"))
		require.NoError(t, err)
		require.Equal(t, 1, f.runs(t))
	}
	replay()
	replay()

	// Other tests write to the same server, so that its log says nothing here; on
	// a quiet one 150 duplicates wrote 0 bytes of it (measured). What is left to
	// see are the rows and the files.
	before := f.files(t)
	for range 10 {
		replay()
	}
	require.Equal(t, before, f.files(t))
	require.Equal(t, 1, f.effects(t, "k"))
}

// files is what the record table holds, dead rows included.
func (b *bundle) files(t *testing.T) string {
	t.Helper()
	return scalar[string](t, b, `SELECT (pg_relation_size('tool_dedup'), pg_relation_size('tool_dedup_pkey'), pg_relation_size('effects'),
		(SELECT string_agg((xmin, xmax, ctid)::text, ' ') FROM tool_dedup), (SELECT string_agg((xmin, xmax, ctid)::text, ' ') FROM effects))::text`)
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
		"Whole":          {stmt: backslash, trips: 1},
		"Separate":       {stmt: backslash, trips: 3, opts: dedup.Options{Retention: apart(true)}},
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
			ctx, b := setup(t, nil)
			if c.setup != "" {
				b.exec(t, `SET allow_system_table_mods = on; `+c.setup, pgx.QueryExecModeSimpleProtocol)
			}
			proxy, err := faultproxy.New(b.db.URL)
			require.NoError(t, err)
			t.Cleanup(proxy.Close)
			pool := b.db.Pool(t, func(config *pgxpool.Config) {
				parsed, err := pgxpool.ParseConfig(proxy.URL())
				require.NoError(t, err)
				config.ConnConfig = parsed.ConnConfig
				conf(config)
			})
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
			require.Equal(t, 3, scalar[int](t, b, `SELECT count(*) FROM effects`))
		})
	}
}

// TestStatementChangesTheEncoding has a statement that leaves its session reading
// and writing other characters. It is refused, and nothing of it is kept.
func TestStatementChangesTheEncoding(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, poolOfOne)
			stmt := dedup.SQL(`WITH e AS (INSERT INTO effects VALUES ('k') RETURNING ref)
				SELECT 'Zürich' AS title FROM e WHERE set_config('client_encoding', 'LATIN1', false) <> ''`)
			for range 2 {
				_, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), stmt)
				require.Error(t, err)
			}
			require.Zero(t, f.effects(t, "k"))
			require.Zero(t, f.records(t))
		})
	}
}

// TestStatementMisuse: what is refused before anything is sent.
func TestStatementMisuse(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.countRuns(t)
	_, err := dedup.DoStatement[ticket](ctx, f.d, dedup.Call{Tool: "t", Key: "k"}, leave("k"))
	require.ErrorIs(t, err, dedup.ErrInvalid)
	_, err = dedup.DoStatement[ticket](ctx, nil, call("k"), leave("k"))
	var invalid *dedup.InvalidError
	require.ErrorAs(t, err, &invalid)
	_, err = dedup.DoStatement[ticket](ctx, f.d, call("k"), dedup.Statement{})
	require.ErrorAs(t, err, &invalid)
	_, err = dedup.Do(ctx, f.d, call("outer"), func(ctx context.Context, _ pgx.Tx) (ticket, error) {
		result, err := dedup.DoStatement[ticket](ctx, f.d, call("inner"), leave("inner"))
		return result.Value, err
	})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.Zero(t, f.runs(t))

	// What the server says of a text is the call's own error.
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

// TestStatementBothWays: Do and DoStatement serve calls of one tool.
func TestStatementBothWays(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.countRuns(t)
	first, err := dedup.DoStatement[ticket](ctx, f.d, call("a"), leave("a"))
	require.NoError(t, err)
	e := &tool{ref: "a"}
	again, err := dedup.Do(ctx, f.d, call("a"), e.run)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Value, again.Value)

	held := newGate()
	e = &tool{ref: "b", then: held.then}
	running := start(ctx, f.d, call("b"), e.run)
	receive(t, ctx, held.entered)
	waiting := startStatement(ctx, f.peer(t), call("b"), leave("b"))
	require.NoError(t, f.events.untilWaiting(ctx, 0, 1))
	held.release()
	requireTwins(t, []dedup.Result[ticket]{receive(t, ctx, running).require(t), receive(t, ctx, waiting).require(t)})
	require.Equal(t, 1, f.effects(t, "b"))

	tx := f.begin(t, ctx)
	inTx, err := dedup.DoTx(ctx, f.d, tx, call("c"), effect("c"))
	require.NoError(t, err)
	impatient := call("c")
	impatient.MaxWait = 5 * time.Millisecond
	_, err = dedup.DoStatement[ticket](ctx, f.d, impatient, leave("c"))
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.NoError(t, tx.Commit(ctx))
	after, err := dedup.DoStatement[ticket](ctx, f.d, call("c"), leave("c"))
	require.NoError(t, err)
	require.Equal(t, inTx.Value, after.Value)
	require.Equal(t, 1, f.runs(t))
}

// A statement that loses its race to a rival past the lock is a conflict, and
// is reported as one that was settled.
func TestStatementLosesItsRace(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	f.warm(t)
	holder := f.begin(t, ctx)
	_, err := holder.Exec(ctx, `SELECT pg_advisory_xact_lock(42)`)
	require.NoError(t, err)
	type answer struct {
		dedup.Result[ticket]
		err error
	}
	done := make(chan answer, 1)
	go func() {
		result, err := dedup.DoStatement[ticket](ctx, f.d, call("k"),
			dedup.SQL(`WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(42)) INSERT INTO effects (ref) SELECT $1::text FROM held RETURNING 1 AS id, ref AS title`, "k"))
		done <- answer{result, err}
	}()
	f.untilWaitingInside(t, 1)
	require.NoError(t, f.rival(ctx, call("k"), "k", ticket{ID: 99, Title: "rival"}))
	require.NoError(t, holder.Rollback(ctx))
	got := receive(t, ctx, done)
	require.NoError(t, got.err)
	require.Equal(t, 99, got.Value.ID)
	require.Len(t, f.events.ended(dedup.OutcomeReplayed), 1)
	require.Equal(t, 1, f.effects(t, "k"))
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

// TestStatementSwallowed: a record that a trigger swallows, which came when the
// table was trusted, blocks its identity, and the table is trusted no longer.
func TestStatementSwallowed(t *testing.T) {
	t.Parallel()

	type row struct {
		Ref string `json:"ref"`
	}
	ctx, b := setup(t, nil)
	insert := func(key string) error {
		_, err := dedup.DoStatement[row](ctx, b.d, call(key), dedup.SQL(`INSERT INTO effects (ref) VALUES ($1) RETURNING ref`, key))
		return err
	}
	require.NoError(t, insert("warm"))
	require.NoError(t, insert("as one statement"))
	b.exec(t, `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	b.exec(t, `CREATE TRIGGER swallow BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION swallow()`)

	require.ErrorIs(t, insert("k"), dedup.ErrBroken)
	require.ErrorIs(t, insert("next"), dedup.ErrSchema)
	require.Zero(t, b.effects(t, "next"))
}
