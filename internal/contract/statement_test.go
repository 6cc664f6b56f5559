package contract_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestStatementUnsendable has arguments that pgx cannot encode. The error says that nothing was
// sent.
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

// TestStatementThatTheServerRefuses: the server's error about a text is the error of the call.
func TestStatementThatTheServerRefuses(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	for sql, code := range map[string]string{
		`SELECT 1 +`:              "42601",
		`SELECT * FROM nowhere`:   "42P01",
		`SELECT 'x'::int AS a`:    "22P02",
		`SELECT $1::int, $3::int`: "42P18",
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

// TestLongContractStatements is TestContractStatements in the other exec modes, and with claims.
func TestLongContractStatements(t *testing.T) {
	t.Parallel()

	runContract(t,
		profile{isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeCacheDescribe},
		profile{isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeExec},
		profile{isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeSimpleProtocol},
		profile{order: claimFirst, isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeCacheStatement},
		profile{order: claimFirst, isolation: pgx.ReadCommitted, way: viaStatement, mode: pgx.QueryExecModeDescribeExec},
	)
}

// TestPuppetIsOneStatement checks that the puppet is one statement.
func TestPuppetIsOneStatement(t *testing.T) {
	t.Parallel()

	for way, trips := range map[callWay]int{viaStatement: 2} {
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
