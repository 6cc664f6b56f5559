package contract_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

var readCommitted = variant{isolation: pgx.ReadCommitted}

func outcomes(ctx context.Context, d *dedup.Deduper, calls ...dedup.StatementCall) []dedup.BatchOutcome[ticket] {
	return slices.Collect(dedup.DoBatch[ticket](ctx, d, slices.Values(calls), nil))
}

// A statement that changes the encoding must not make the next call of its chunk a
// stranger to itself.
func TestEncodingChangedInABatch(t *testing.T) {
	t.Parallel()

	for _, local := range []bool{false, true} {
		t.Run(fmt.Sprint(local), func(t *testing.T) {
			t.Parallel()
			ctx, f := readCommitted.setup(t, nil)
			f.countRuns(t)
			out := outcomes(ctx, f.d,
				dedup.StatementCall{Call: call("a"), Statement: dedup.SQL(`SELECT 1 AS id, set_config('client_encoding', 'LATIN1', $1) AS title`, local)},
				dedup.StatementCall{Call: call("bé"), Statement: leave("b")})
			require.Error(t, out[0].Err)
			require.NoError(t, out[1].Err)
			again, err := dedup.DoStatement[ticket](ctx, f.d, call("bé"), leave("b"))
			require.NoError(t, err)
			require.True(t, again.Replayed)
			require.Equal(t, 1, f.effects(t, "b"))
			require.Equal(t, "bé", scalar[string](t, f.bundle, `SELECT key FROM tool_dedup`))
		})
	}
}

// The first caller's row must not be read in an encoding that the statement chose.
func TestEncodingChangedByTheStatement(t *testing.T) {
	t.Parallel()

	ctx, f := readCommitted.setup(t, nil)
	_, err := dedup.DoStatement[ticket](ctx, f.d, call("a"),
		dedup.SQL(`SELECT 1 AS id, 'é' || left(set_config('client_encoding', 'LATIN1', true), 0) AS title`))
	require.Error(t, err)
	require.Zero(t, f.records(t))
}

// A changed type makes a prepared statement wrong, and not for good.
func TestTogetherAfterATypeChanged(t *testing.T) {
	t.Parallel()

	ctx, f := readCommitted.setup(t, nil, func(c *pgxpool.Config) { c.MaxConns = 1 })
	f.exec(t, `CREATE TABLE z (v int)`)
	do := func(key string, arg any) error {
		_, err := dedup.DoTogether[map[string]any](ctx, f.d, []dedup.StatementCall{
			{Call: call(key), Statement: dedup.SQL(`INSERT INTO z (v) VALUES ($1) RETURNING v`, arg)},
		})
		return err
	}
	require.NoError(t, do("k1", 1))
	f.exec(t, `ALTER TABLE z ALTER v TYPE text`)
	require.NoError(t, do("k2", "x"))
	require.NoError(t, do("k3", "y"))
}

// A batch whose answer is lost with its context says that it does not know.
func TestBatchUnknownAtTheEndOfTheContext(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, readCommitted, nil)
	f.countRuns(t)
	_, err := dedup.DoStatement[ticket](ctx, f.d, call("warm"), leave("warm"))
	require.NoError(t, err)
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Where: faultproxy.AtSQL("a twin of this call is in flight")})
	done := make(chan []dedup.BatchOutcome[ticket], 1)
	go func() {
		done <- outcomes(calling, f.d,
			dedup.StatementCall{Call: call("a"), Statement: leave("a")},
			dedup.StatementCall{Call: call("b"), Statement: leave("b")})
	}()
	require.NoError(t, late.Wait(ctx))
	cancel()
	for _, out := range receive(t, ctx, done) {
		require.ErrorIs(t, out.Err, dedup.ErrOutcomeUnknown)
		require.ErrorIs(t, out.Err, context.Canceled)
	}
}

// OnError does not see what another attempt does not meet.
func TestOnErrorAndTransientFaults(t *testing.T) {
	t.Parallel()

	ctx, f := readCommitted.setup(t, &dedup.Options{Retry: quickRetry})
	f.countRuns(t)
	f.exec(t, `CREATE FUNCTION flaky() RETURNS int LANGUAGE plpgsql AS
		$$ BEGIN IF nextval('runs') < 3 THEN RAISE EXCEPTION 'no' USING ERRCODE = '40P01'; END IF; RETURN 1; END $$`)
	stmt := dedup.SQL(`SELECT flaky() AS id, 'x' AS title`)
	stmt.OnError = func(error) error { return dedup.Final(errors.New("taken")) }
	result, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), stmt)
	require.NoError(t, err)
	require.Equal(t, ticket{ID: 1, Title: "x"}, result.Value)
}

// A pool whose hook discards everything costs connections, and no answers.
func TestDiscardAllBetweenCalls(t *testing.T) {
	t.Parallel()

	ctx, f := readCommitted.setup(t, nil, func(c *pgxpool.Config) {
		c.MaxConns = 2
		c.AfterRelease = func(conn *pgx.Conn) bool {
			_, err := conn.Exec(context.Background(), "discard all")
			return err == nil
		}
	})
	f.countRuns(t)
	for i := range 3 {
		key := func(kind string) dedup.Call { return call(fmt.Sprint(kind, i)) }
		_, err := dedup.Do(ctx, f.d, key("do"), effect("do"))
		require.NoError(t, err)
		_, err = dedup.DoStatement[ticket](ctx, f.d, key("statement"), leave("statement"))
		require.NoError(t, err)
		for _, out := range outcomes(ctx, f.d,
			dedup.StatementCall{Call: key("a"), Statement: leave("batch")},
			dedup.StatementCall{Call: key("b"), Statement: leave("batch")}) {
			require.NoError(t, out.Err)
		}
		_, err = dedup.DoTogether[ticket](ctx, f.d, []dedup.StatementCall{
			{Call: key("c"), Statement: leave("together")}, {Call: key("d"), Statement: leave("together")},
		})
		require.NoError(t, err)
	}
	for ref, want := range map[string]int{"do": 3, "statement": 3, "batch": 6, "together": 6} {
		require.Equal(t, want, f.effects(t, ref), ref)
	}
}
