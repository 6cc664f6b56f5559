package contract_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgbouncer"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestContractStatements holds DoStatement to what Do is held to, with the same
// cases and the same effects.
func TestContractStatements(t *testing.T) {
	t.Parallel()

	for _, way := range []callWay{viaStatement, viaSeparate} {
		for _, mode := range execModes {
			runContract(t, variant{isolation: pgx.ReadCommitted, mode: mode, way: way})
		}
	}
}

// TestPuppetIsOneStatement makes sure that the contract does try what it says.
func TestPuppetIsOneStatement(t *testing.T) {
	t.Parallel()

	for way, trips := range map[callWay]int{viaStatement: 1, viaSeparate: 3} {
		ctx, f, proxy := proxied(t, variant{isolation: pgx.ReadCommitted, way: way}, nil)
		for _, key := range []string{"warm", "k"} {
			proxy.Reset()
			result, err := f.do(ctx, f.d, call(key), (&tool{ref: key}).run)
			require.NoError(t, err)
			require.Equal(t, ticket{ID: 1, Title: key}, result.Value)
		}
		require.Equal(t, trips, proxy.Snapshot().RoundTrips)
	}
}

// TestContractStatementsThroughPgBouncer is TestContractThroughPgBouncer.
func TestContractStatementsThroughPgBouncer(t *testing.T) {
	t.Parallel()

	bouncer := pgbouncer.New(t, pgtest.NewEmpty(t).URL)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeSimpleProtocol} {
		runContract(t, variant{isolation: pgx.ReadCommitted, mode: mode, way: viaStatement, bouncer: bouncer})
	}
}
