package contract_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/table"
)

// TestCitusContract runs the contract on a Citus cluster.
func TestCitusContract(t *testing.T) {
	t.Parallel()

	runContract(t, profile{engine: onCitus, isolation: pgx.ReadCommitted})
}

// TestLongPlayedCitusContract runs the statements for Citus on PostgreSQL.
func TestLongPlayedCitusContract(t *testing.T) {
	t.Parallel()
	runContract(t, profile{engine: onPlayedCitus, isolation: pgx.ReadCommitted})
}

// What limits a wait on another node is sent by SET LOCAL, which Citus passes on when it is
// told to, and given back in the transactions of callers.
func TestPlayedCitusLimitsWaits(t *testing.T) {
	t.Parallel()

	p := profile{engine: onPlayedCitus, isolation: pgx.ReadCommitted}
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
}

// A sweep handles one shard per transaction and names the shard's scopes.
func TestPlayedCitusSweep(t *testing.T) {
	t.Parallel()

	const records, scopes = 120, 40
	for _, archived := range []bool{false, true} {
		t.Run(fmt.Sprint("archived=", archived), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{engine: onPlayedCitus, isolation: pgx.ReadCommitted}.setup(t, nil)
			f.dueRecords(t, records, scopes)
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
	f.warm(t)
	proxy.Reset()
	calls := []dedup.StatementCall{{Call: call("a"), Statement: leave("a")}, {Call: call("b"), Statement: leave("b")}}
	for _, out := range outcomes(ctx, f.d, calls...) {
		require.NoError(t, out.Err)
	}
	looked := 0
	for _, sql := range proxy.Snapshot().Statements {
		if strings.Contains(sql, "WITH ORDINALITY AS wanted (scope") {
			require.Contains(t, sql, "AND r.scope = ANY ($1::text[])")
			looked++
		}
	}
	require.Equal(t, 1, looked)
}

// A node that cannot be reached when the transaction opens is a transient fault: nothing was sent.
// The same state raised elsewhere is not transient.
func TestPlayedCitusLosesANode(t *testing.T) {
	t.Parallel()

	for _, file := range []string{"remote_transaction.c", "heapam.c"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			lost := func(status byte, before ...pgproto3.BackendMessage) []byte {
				return wireAnswer(t, append(before,
					&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "XX000", Message: "failure on connection marked as essential: worker-1:5432", File: file},
					&pgproto3.ReadyForQuery{TxStatus: status})...)
			}
			p := profile{engine: onPlayedCitus, isolation: pgx.ReadCommitted}
			ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry})
			f.warm(t)
			fault := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("begin isolation level"), Answer: lost('I')})
			e := &tool{ref: "k"}
			result, err := dedup.Do(ctx, f.d, call("k"), e.run)
			require.Equal(t, 1, fault.Count())
			passes := file == "remote_transaction.c"
			if passes {
				require.NoError(t, err)
				require.GreaterOrEqual(t, result.Attempts, 2)
				e.requireRuns(t, 1)
				require.Equal(t, 1, f.effects(t, "k"))
				always := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("begin isolation level"), Times: -1, Answer: lost('I')})
				_, err = dedup.Do(ctx, f.d, call("other"), e.run)
				require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
				always.Disarm()
			} else {
				requireState(t, err, "XX000")
				require.False(t, dedup.IsRetryable(err))
			}

			f.pool.Reset() // of those that the proxy has ended
			tx := f.begin(t, ctx)
			fault = proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("savepoint tool_dedup"), Answer: lost('E')})
			_, err = dedup.DoTx(ctx, f.d, tx, call("tx"), (&tool{ref: "tx"}).run)
			require.Equal(t, 1, fault.Count())
			requireState(t, err, "XX000")
			require.Equal(t, passes, errors.Is(err, dedup.ErrRestartTx), err)
			require.Equal(t, passes, dedup.IsRetryable(err))
			require.Zero(t, f.effects(t, "tx"))
		})
	}
}

// Citus refuses a function in RETURNING that is not IMMUTABLE. An index refuses it too, on every
// server.
func TestReturningIsImmutable(t *testing.T) {
	t.Parallel()
	_, f := plain.setup(t, nil)
	f.exec(t, "CREATE INDEX ON tool_dedup (("+table.Micros("created_at")+"), ("+table.Hex("fingerprint")+"))")
}
