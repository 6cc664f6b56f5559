package contract_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgbouncer"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestLongContractThroughPgBouncer runs the contract in transaction pooling mode: both orders,
// statements, a stricter isolation level, and the exec modes that work there with a PgBouncer
// before 1.21.
func TestLongContractThroughPgBouncer(t *testing.T) {
	t.Parallel()

	runThroughPgBouncer(t,
		profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec},
		profile{order: claimFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeCacheDescribe},
		profile{order: lockFirst, isolation: pgx.Serializable, mode: pgx.QueryExecModeSimpleProtocol},
		profile{way: viaStatement, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec},
		profile{way: viaStatement, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol},
	)
}

func runThroughPgBouncer(t *testing.T, profiles ...profile) {
	t.Helper()
	bouncer := pgbouncer.New(t, pgtest.NewEmpty(t).URL)
	for i := range profiles {
		profiles[i].bouncer = bouncer
	}
	runContract(t, profiles...)
}

// TestLongFaultsThroughPgBouncer lets twins of two pools lose their COMMITs and the answers to them
// on the way to PgBouncer. Each effect happens once, and all twins have its answer.
func TestLongFaultsThroughPgBouncer(t *testing.T) {
	t.Parallel()
	const keys, twins = 20, 4
	bouncer := pgbouncer.New(t, pgtest.NewEmpty(t).URL)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeSimpleProtocol} {
		for name, do := range map[string]way{"Do": byDo, "DoStatement": byStatement} {
			t.Run(name+"-"+mode.String(), func(t *testing.T) {
				t.Parallel()
				p := profile{isolation: pgx.ReadCommitted, mode: mode, bouncer: bouncer}
				ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry})
				callers := []*dedup.Deduper{f.d, f.peer(t)}
				for i, fault := range slices.Concat(everyFault(), everyFault()) {
					if fault.Kind == faultproxy.Blackhole { // a combined statement has no limit of its own
						continue
					}
					fault.Where, fault.Skip, fault.Delay = faultproxy.AtCommit, 2*i, 20*time.Millisecond
					proxy.Arm(fault.Fault)
				}
				for n := range keys {
					var pending [twins]<-chan dedup.Result[ticket]
					for i := range pending {
						answer := make(chan dedup.Result[ticket], 1)
						pending[i] = answer
						go func() { answer <- do.insist(t, ctx, callers[i%2], call(fmt.Sprint(n))) }()
					}
					first := receive(t, ctx, pending[0])
					for _, twin := range pending[1:] {
						require.Equal(t, first.Value, receive(t, ctx, twin).Value)
					}
				}
				require.Greater(t, len(proxy.Snapshot().Faults), 5, "kinds of faults")
				f.exactly(t, keys)
			})
		}
	}
}

// TestNoLocksStayBehindThePooler looks at the server's connections, which live on
// after their clients.
func TestNoLocksStayBehindThePooler(t *testing.T) {
	t.Parallel()

	p := profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec}
	p.bouncer = pgbouncer.New(t, pgtest.NewEmpty(t).URL)
	ctx, f := p.setup(t, nil)
	for range 2 {
		_, err := dedup.Do(ctx, f.d, call("k"), (&tool{ref: "k"}).run)
		require.NoError(t, err)
		c := call("k")
		_, err = f.d.Lookup(ctx, c.Scope, c.Tool, c.Key)
		require.NoError(t, err)
	}
	f.pool.Close()
	require.Positive(t, scalar[int](t, f.bundle, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`))
	require.Zero(t, scalar[int](t, f.bundle, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE locktype = 'advisory' AND datname = current_database()`))
}
