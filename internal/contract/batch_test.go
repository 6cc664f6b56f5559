package contract_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgbouncer"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// single is a call whose statement leaves one effect for its key.
func single(key string) dedup.StatementCall {
	return dedup.StatementCall{Call: call(key), Statement: leave(key)}
}

func singles(prefix string, n int) []dedup.StatementCall {
	calls := make([]dedup.StatementCall, n)
	for i := range calls {
		calls[i] = single(fmt.Sprintf("%s-%04d", prefix, i))
	}
	return calls
}

// spoiling is a call whose statement raises code after its effect.
func spoiling(key, code string) dedup.StatementCall {
	c := single(key)
	c.Statement.SQL = `WITH e AS (` + effectSQL + `) SELECT id, title, fail($2) FROM e`
	c.Statement.Args = []any{key, code}
	return c
}

// batchWay is a way in which a chunk goes to the server.
type batchWay struct {
	profile
}

func (w batchWay) String() string {
	return w.profile.String()
}

// shortBatchWays are one of each kind of batchWays.
func shortBatchWays() []batchWay {
	return []batchWay{
		{profile: plain},
		{profile: profile{order: claimFirst, isolation: pgx.ReadCommitted}},
		{profile: profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol}},
	}
}

// batchWays are both ways to send a chunk, and all that changes how it is sent.
func batchWays() []batchWay {
	ways := []batchWay{
		{profile: profile{order: claimFirst, isolation: pgx.ReadCommitted}},
		{profile: profile{order: lockFirst, isolation: pgx.Serializable}},
	}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		p := profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: mode}
		ways = append(ways, batchWay{profile: p})
	}
	return ways
}

// throughBouncer are the ways that work behind a transaction pooler.
func throughBouncer(t *testing.T) (ways []batchWay) {
	t.Helper()
	bouncer := pgbouncer.New(t, pgtest.NewEmpty(t).URL)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeSimpleProtocol} {
		p := profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: mode, bouncer: bouncer}
		ways = append(ways, batchWay{profile: p})
	}
	return ways
}

func (w batchWay) setup(t *testing.T, opts *dedup.Options, conf ...func(*pgxpool.Config)) (context.Context, *fixture) {
	t.Helper()
	return w.profile.setup(t, opts, conf...)
}

// exactly requires one effect for each of the keys and none beside them, and that
// each record has the result of its effect.
func (f *fixture) exactly(t *testing.T, keys int) {
	t.Helper()
	f.eventually(t, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle')`)
	require.Equal(t, keys, scalar[int](t, f.bundle, `SELECT count(*) FROM effects`), "effects")
	require.Zero(t, scalar[int](t, f.bundle, `SELECT count(*)
		FROM (SELECT * FROM tool_dedup WHERE outcome = 'done') t FULL JOIN effects e ON e.ref = t.key
		WHERE NOT coalesce(t.result::json ->> 'id' = e.run::text, false)`), "records without the result of their effect")
}

// endless counts how many calls are taken from it.
func endless(taken *atomic.Int64) iter.Seq[dedup.StatementCall] {
	return func(yield func(dedup.StatementCall) bool) {
		for i := 0; yield(single(fmt.Sprint("k", i))); i++ {
			taken.Add(1)
		}
	}
}

// No more calls are taken than are sent together, and a loop may end early.
func TestBatchEndsEarly(t *testing.T) {
	t.Parallel()

	ctx, f := batchWay{profile: plain}.setup(t, nil)
	var taken atomic.Int64
	seen := 0
	for out := range dedup.DoBatch[ticket](ctx, f.d, endless(&taken), &dedup.BatchOptions{Size: 10}) {
		require.NoError(t, out.Err)
		require.LessOrEqual(t, taken.Load(), int64(seen/10*10+10))
		if seen++; seen == 25 {
			break
		}
	}
	f.exactly(t, 30)
}

func TestBatchContextEnds(t *testing.T) {
	t.Parallel()

	for _, w := range []batchWay{{profile: plain}} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := w.setup(t, nil)
			calling, cancel := context.WithCancel(ctx)
			defer cancel()
			var taken atomic.Int64
			seen, ended := int64(0), 0
			calls := func(yield func(dedup.StatementCall) bool) {
				for c := range endless(&taken) {
					if taken.Load() == 15 {
						cancel() // in the middle of the second chunk
					}
					if !yield(c) {
						return
					}
				}
			}
			for out := range dedup.DoBatch[ticket](calling, f.d, calls, &dedup.BatchOptions{Size: 10}) {
				if out.Err != nil {
					require.ErrorIs(t, out.Err, context.Canceled)
					require.True(t, dedup.IsRetryable(out.Err))
					ended++
				}
				seen++
			}
			require.Equal(t, int64(16), seen, "every call that was taken has an outcome")
			require.Equal(t, 6, ended)
			f.exactly(t, 10)
		})
	}
}

func TestBatchBadInput(t *testing.T) {
	t.Parallel()

	ctx, f := batchWay{profile: plain}.setup(t, nil)
	one := slices.Values(singles("k", 1))
	for _, opts := range []dedup.BatchOptions{{Size: -1}, {Size: 1001}} {
		outcomes := slices.Collect(dedup.DoBatch[ticket](ctx, f.d, one, &opts))
		require.Len(t, outcomes, 1)
		require.Equal(t, -1, outcomes[0].Index)
		require.ErrorIs(t, outcomes[0].Err, dedup.ErrInvalid)
	}
	none := slices.Collect(dedup.DoBatch[ticket](ctx, f.d, nil, nil))
	require.Equal(t, -1, none[0].Index)
	require.ErrorIs(t, none[0].Err, dedup.ErrInvalid)
	require.Empty(t, slices.Collect(dedup.DoBatch[ticket](ctx, f.d, slices.Values[[]dedup.StatementCall](nil), nil)))
	for out := range dedup.DoBatch[int](ctx, f.d, one, nil) { // an R that takes no row
		var invalid *dedup.InvalidError
		require.ErrorAs(t, out.Err, &invalid)
		require.Equal(t, "result", invalid.What)
	}
	require.Zero(t, f.records(t))
}

// An iterator may reuse its slice and its buffer after it yielded them.
func TestBatchKeepsArguments(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	args, buffer := make([]any, 1), make([]byte, 0, 8)
	calls := func(yield func(dedup.StatementCall) bool) {
		for i := range 7 {
			buffer = fmt.Append(buffer[:0], "key-", i)
			args[0] = buffer
			stmt := dedup.SQL(`INSERT INTO effects VALUES (convert_from($1, 'UTF8')) RETURNING ref AS title`, args...)
			if !yield(dedup.StatementCall{Call: call(string(buffer)), Statement: stmt}) {
				return
			}
		}
	}
	for out := range dedup.DoBatch[ticket](ctx, f.d, calls, &dedup.BatchOptions{Size: 5}) {
		require.NoError(t, out.Err)
		require.Equal(t, out.Call.Key, out.Result.Value.Title)
	}
}

// separateWays are those that send effect and record as two statements.
func separateWays() []batchWay {
	return []batchWay{
		{profile: profile{order: claimFirst, isolation: pgx.ReadCommitted}},
	}
}

// A call whose record may be forgotten and whose twin is in flight gets an ordinary answer. The
// calls beside it lose nothing, even if the connection breaks.
func TestBatchForgottenInFlight(t *testing.T) {
	t.Parallel()

	for _, w := range separateWays() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, w.profile, &dedup.Options{Retry: quickRetry})
			direct := f.direct(t)
			old, fresh := single("old"), single("fresh")
			_, err := dedup.DoStatement[ticket](ctx, direct, old.Call, old.Statement)
			require.NoError(t, err)
			f.age(t, "old", "2000 hours")
			held := newGate()
			twin := start(ctx, direct, old.Call, (&tool{ref: "old", then: held.then}).run)
			receive(t, ctx, held.entered)

			old.Call.MaxWait = -1
			cut := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("INSERT INTO effects")})
			var errs []error
			for out := range dedup.DoBatch[ticket](ctx, f.d, slices.Values([]dedup.StatementCall{old, fresh}), nil) {
				errs = append(errs, out.Err)
			}
			require.Len(t, errs, 2)
			require.ErrorIs(t, errs[0], dedup.ErrInFlight)
			require.NoError(t, errs[1])
			require.Equal(t, 1, f.effects(t, "fresh"))
			require.Equal(t, 1, cut.Count())
			held.release()
			require.False(t, receive(t, ctx, twin).require(t).Replayed)
			require.Equal(t, 2, f.effects(t, "old"))
		})
	}
}

// TestBatchWithARecordOfALaterVersion: no call is answered from a record whose outcome this version
// does not know.
func TestBatchWithARecordOfALaterVersion(t *testing.T) {
	t.Parallel()

	for _, w := range shortBatchWays() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := w.setup(t, nil)
			calls := singles("k", 3)
			_, err := byBatch(ctx, f.d, calls)
			require.NoError(t, err)
			f.exec(t, `UPDATE tool_dedup SET outcome = 'later' WHERE key = $1`, calls[1].Call.Key)
			for out := range dedup.DoBatch[ticket](ctx, f.d, slices.Values(calls), nil) {
				if out.Index == 1 {
					require.ErrorContains(t, out.Err, "another version of the library wrote it")
				} else {
					require.NoError(t, out.Err)
					require.True(t, out.Result.Replayed)
				}
			}
		})
	}
}
