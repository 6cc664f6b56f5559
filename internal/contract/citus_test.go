package contract_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestCitusContract runs the contract on a Citus cluster.
func TestCitusContract(t *testing.T) {
	t.Parallel()

	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		runContract(t, profile{engine: onCitus, order: order, isolation: pgx.ReadCommitted})
	}
}

// TestPlayedCitusContract runs what is sent to Citus on PostgreSQL.
func TestPlayedCitusContract(t *testing.T) {
	t.Parallel()
	runContract(t, profile{engine: onPlayedCitus, order: dedup.LockFirst, isolation: pgx.ReadCommitted})
}

// TestLongPlayedCitusContract does so in the other order.
func TestLongPlayedCitusContract(t *testing.T) {
	t.Parallel()
	runContract(t, profile{engine: onPlayedCitus, order: dedup.ClaimFirst, isolation: pgx.ReadCommitted})
}

// What limits a wait on another node is sent by SET LOCAL, which Citus passes on when it is
// told to, and given back in the transactions of callers.
func TestPlayedCitusLimitsWaits(t *testing.T) {
	t.Parallel()

	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		t.Run(order.String(), func(t *testing.T) {
			t.Parallel()
			p := profile{engine: onPlayedCitus, order: order, isolation: pgx.ReadCommitted}
			ctx, f, proxy := proxied(t, p, &dedup.Options{MaxWait: 1234 * time.Millisecond})
			f.warm(t)
			proxy.Reset()
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				var limit string
				err := tx.QueryRow(ctx, `SELECT current_setting('lock_timeout')`).Scan(&limit)
				require.Equal(t, "7s", limit, "the session's own")
				return err
			}}
			f.exec(t, `ALTER DATABASE `+f.db.Name+` SET lock_timeout = '7s'`)
			f.pool.Reset()
			_, err := dedup.Do(ctx, f.d, call("k"), e.run)
			require.NoError(t, err)
			sent := proxy.Snapshot().Statements
			keep := slices.IndexFunc(sent, func(sql string) bool { return strings.Contains(sql, "citus.propagate_set_commands") })
			require.Positive(t, keep)
			require.Regexp(t, `^set local lock_timeout = \d+$`, sent[keep+1])
			limited := slices.IndexFunc(sent, func(sql string) bool { return strings.HasPrefix(sql, "INSERT INTO \"public\".\"tool_dedup\"") })
			release := slices.Index(sent, "set local lock_timeout to default")
			require.Less(t, keep, limited)
			require.Less(t, limited, release)

			tx := f.begin(t, ctx)
			_, err = dedup.DoTx(ctx, f.d, tx, call("tx"), e.run)
			require.NoError(t, err)
			var limits string
			require.NoError(t, tx.QueryRow(ctx, `SELECT concat_ws(' ', current_setting('lock_timeout'), current_setting('citus.propagate_set_commands'))`).Scan(&limits))
			require.Equal(t, "7s", strings.TrimSpace(limits), "nothing is passed on any more") // this server forgets Citus's default
		})
	}
}

// A sweep goes shard by shard, each in a transaction of its own that names its scopes.
func TestPlayedCitusSweep(t *testing.T) {
	t.Parallel()

	const records, scopes = 1200, 400
	for _, archived := range []bool{false, true} {
		t.Run(fmt.Sprint("archived=", archived), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{engine: onPlayedCitus, order: dedup.LockFirst, isolation: pgx.ReadCommitted}.setup(t, nil)
			f.dueRecords(t, records)
			opts := &dedup.SweepOptions{Rest: -1, BatchSize: 50}
			seen := map[string]bool{}
			if archived {
				opts.Archive = func(_ context.Context, _ pgx.Tx, batch []dedup.SweptRecord) error {
					for _, r := range batch {
						require.Equal(t, batch[0].Scope, r.Scope, "a scope is a shard here")
						seen[r.Key] = true
					}
					return nil
				}
			}
			swept, err := f.d.Sweep(ctx, opts)
			require.NoError(t, err)
			require.EqualValues(t, records/2, swept.Forgotten)
			require.EqualValues(t, records/2, swept.Expired)
			require.GreaterOrEqual(t, swept.Batches, scopes)
			if archived {
				require.Len(t, seen, records)
			}
			require.Equal(t, records/2, f.records(t))
		})
	}
}

// A look-up of several calls names their scopes, so that it goes to their shards only.
func TestPlayedCitusLooksUpByScope(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, profile{engine: onPlayedCitus, isolation: pgx.ReadCommitted}, nil)
	f.countRuns(t)
	f.warm(t)
	proxy.Reset()
	calls := []dedup.StatementCall{{Call: call("a"), Statement: leave("a")}, {Call: call("b"), Statement: leave("b")}}
	_, err := dedup.DoTogether[ticket](ctx, f.d, calls)
	require.NoError(t, err)
	looked := 0
	for _, sql := range proxy.Snapshot().Statements {
		if strings.Contains(sql, "WITH ORDINALITY AS wanted (scope") {
			require.Contains(t, sql, "AND r.scope = ANY ($1::text[])")
			looked++
		}
	}
	require.Equal(t, 1, looked)
}
