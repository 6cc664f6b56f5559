package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
)

// B: "not found" is said of a call that commits later.
func TestEdgeLateStatementOfABatch(t *testing.T) {
	t.Parallel()
	retry := quickRetry
	ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: retry, CommitTimeout: time.Second})
	f.countRuns(t)
	f.warm(t)
	id := table.Identity{Scope: "acme", Tool: "create_ticket", Key: "k"}
	other, err := pgx.Connect(ctx, f.db.URL)
	require.NoError(t, err)
	defer other.Close(ctx)
	_, err = other.Exec(ctx, `SELECT pg_advisory_lock_shared($1)`, id.LockKey("public")) // somebody looks
	require.NoError(t, err)

	direct := newDeduper(t, f.db.Pool(t), &dedup.Options{CommitTimeout: time.Second})
	_, err = direct.Lookup(ctx, "acme", "create_ticket", "x")
	require.NoError(t, err)
	slow := dedup.SQL(`WITH run AS (SELECT nextval('runs')::int AS n, pg_sleep(4))
INSERT INTO effects (ref) SELECT $1::text FROM run RETURNING (SELECT n FROM run) AS id, ref AS title`, "j")
	proxy.Refuse(true)
	short, cancel := context.WithTimeout(ctx, 600*time.Millisecond)
	defer cancel()
	out := outcomes(short, f.d, dedup.StatementCall{Call: call("j"), Statement: slow}, dedup.StatementCall{Call: call("k"), Statement: leave("k")})
	var unknown *dedup.OutcomeUnknownError
	require.ErrorAs(t, out[1].Err, &unknown)
	require.Equal(t, out[1].Result.Attempts, unknown.Attempts)
	_, err = other.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
	require.NoError(t, err)
	f.eventually(t, `SELECT clock_timestamp() > $1`, unknown.Until)
	status, err := direct.Lookup(ctx, "acme", "create_ticket", "k")
	require.NoError(t, err)
	t.Log(status.State, status.Now.Sub(unknown.Until))
	require.True(t, status.Now.After(unknown.Until))
	require.Equal(t, dedup.StateNotFound, status.State)
	f.eventually(t, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle')`) // the batch's backend has ended
	again, err := direct.Lookup(ctx, "acme", "create_ticket", "k")
	require.NoError(t, err)
	require.Equal(t, dedup.StateNotFound, again.State, "committed after it was certain that it was not")
}

// D: the MaxWait of one call limits what the next one's effect waits for.
func TestEdgeLockTimeoutInABatch(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	f.exec(t, fixtureSQL)
	f.exec(t, `CREATE FUNCTION limit_now() RETURNS text LANGUAGE sql VOLATILE AS $$SELECT current_setting('lock_timeout')$$`)
	a := single("a")
	a.Call.MaxWait = -1
	out := outcomes(ctx, f.d, a, dedup.StatementCall{Call: call("b"), Statement: dedup.SQL(`SELECT 1 AS id, limit_now() AS title`)})
	require.NoError(t, errors.Join(out[0].Err, out[1].Err))
	require.Equal(t, "0", out[1].Result.Value.Title)
}

func batchTrips(t *testing.T, change func(f *fixture, calls []dedup.StatementCall)) int {
	ctx, f, proxy := proxied(t, plain, nil, poolOfOne)
	f.exec(t, fixtureSQL)
	require.NoError(t, errors.Join(errs(outcomes(ctx, f.d, singles("warm", 3)...))...))
	_, err := dedup.DoStatement[ticket](ctx, f.d, call("warmer"), dedup.SQL(effectSQL, "warmer"))
	require.NoError(t, err)
	_, err = dedup.Do(ctx, f.d, call("warmest"), effect("warmest"))
	require.NoError(t, err)
	calls := singles("k", 60)
	change(f, calls)
	proxy.Reset()
	require.NoError(t, errors.Join(errs(outcomes(ctx, f.d, calls...))...))
	n := 0
	for _, c := range proxy.Snapshot().Conns {
		n += c.Units
	}
	return n
}

func errs(out []dedup.BatchOutcome[ticket]) (all []error) {
	for _, o := range out {
		all = append(all, o.Err)
	}
	return all
}

// F, G, OO: how many round trips sixty calls take.
func TestEdgeBatchTrips(t *testing.T) {
	t.Parallel()
	most := map[string]int{"Plain": 1, "OneForgotten": 15, "Discarded": 5, "OneShortRetention": 10}
	for name, change := range map[string]func(t *testing.T) func(f *fixture, calls []dedup.StatementCall){
		"Plain": func(t *testing.T) func(*fixture, []dedup.StatementCall) {
			return func(*fixture, []dedup.StatementCall) {}
		},
		"OneForgotten": func(t *testing.T) func(*fixture, []dedup.StatementCall) {
			return func(f *fixture, calls []dedup.StatementCall) {
				_, err := dedup.DoStatement[ticket](t.Context(), f.d, calls[30].Call, calls[30].Statement)
				require.NoError(t, err)
				f.age(t, calls[30].Call.Key, "2000 hours")
			}
		},
		"Discarded": func(t *testing.T) func(*fixture, []dedup.StatementCall) {
			return func(f *fixture, calls []dedup.StatementCall) { f.exec(t, `DISCARD ALL`) }
		},
		"OneShortRetention": func(t *testing.T) func(*fixture, []dedup.StatementCall) {
			return func(f *fixture, calls []dedup.StatementCall) {
				calls[30].Call.Retention = dedup.Retention{Result: time.Minute, Tombstone: time.Minute}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, batchTrips(t, change(t)), most[name])
		})
	}
}

// E: a fault of nobody's, told about the one call.
func TestEdgeTogetherOfOneInAnOutage(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 2; n++ {
		ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: quickRetry})
		f.exec(t, fixtureSQL)
		proxy.Refuse(true)
		proxy.CutAll()
		_, err := dedup.DoTogether[ticket](ctx, f.d, singles("k", n))
		require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
		var batch *dedup.BatchError
		require.NotErrorAsf(t, err, &batch, "of %d", n)
	}
}

// Stale: how often a failing statement runs when it is sent apart.
func TestEdgeFailingRuns(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, &dedup.Options{SeparateStatements: true}, poolOfOne)
	f.countRuns(t)
	f.warm(t)
	stmt := func(ref string) dedup.Statement {
		return dedup.SQL(`WITH run AS (SELECT nextval('runs')::int AS n) INSERT INTO effects (ref) SELECT $1::text FROM run WHERE $1::text <> 'none' RETURNING 1 AS id, ref AS title`, ref)
	}
	for i := range 3 {
		_, err := dedup.DoStatement[ticket](ctx, f.d, call(fmt.Sprint("ok", i)), stmt("ok"))
		require.NoError(t, err)
		r, err := dedup.DoStatement[ticket](ctx, f.d, call(fmt.Sprint("bad", i)), stmt("none"))
		require.ErrorIs(t, err, pgx.ErrNoRows)
		require.Equal(t, 1, r.Attempts)
	}
}
