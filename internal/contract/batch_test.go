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

// fixtureSQL is what a batch's statements need: the number of a run comes from a
// sequence, which no rollback sets back, and is the call's answer.
const fixtureSQL = `
CREATE SEQUENCE runs;
ALTER TABLE effects ADD COLUMN run bigint;
CREATE FUNCTION fail(code text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
  $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = code; END $$`

const effectSQL = `INSERT INTO effects (ref, run) VALUES ($1, nextval('runs')) RETURNING run AS id, ref AS title`

// single is a call whose statement leaves one effect for its key.
func single(key string) dedup.StatementCall {
	return dedup.StatementCall{Call: call(key), Statement: dedup.SQL(effectSQL, key)}
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
	separate bool
}

func (w batchWay) String() string {
	if w.separate {
		return w.profile.String() + "-separate"
	}
	return w.profile.String()
}

// shortBatchWays are one of each kind of batchWays.
func shortBatchWays() []batchWay {
	return []batchWay{
		{profile: plain},
		{profile: plain, separate: true},
		{profile: profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}},
		{profile: profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol}},
	}
}

// batchWays are both ways to send a chunk, and all that changes how it is sent.
func batchWays() []batchWay {
	ways := []batchWay{
		{profile: profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}},
		{profile: profile{order: dedup.LockFirst, isolation: pgx.Serializable}},
	}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		p := profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: mode}
		ways = append(ways, batchWay{profile: p}, batchWay{profile: p, separate: true})
	}
	return ways
}

// throughBouncer are the ways that work behind a transaction pooler.
func throughBouncer(t *testing.T) (ways []batchWay) {
	t.Helper()
	bouncer := pgbouncer.New(t, pgtest.NewEmpty(t).URL)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeSimpleProtocol} {
		p := profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: mode, bouncer: bouncer}
		ways = append(ways, batchWay{profile: p}, batchWay{profile: p, separate: true})
	}
	return ways
}

func (w batchWay) setup(t *testing.T, opts *dedup.Options, conf ...func(*pgxpool.Config)) (context.Context, *fixture) {
	t.Helper()
	var o dedup.Options
	if opts != nil {
		o = *opts
	}
	o.Retention = apart(w.separate)
	ctx, f := w.profile.setup(t, &o, conf...)
	f.exec(t, fixtureSQL)
	return ctx, f
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

func TestBatch(t *testing.T) {
	t.Parallel()

	for _, w := range shortBatchWays() {
		w.run(t, fates)
	}
}

func TestLongBatch(t *testing.T) {
	t.Parallel()

	for _, w := range batchWays() {
		w.run(t, fates)
	}
}

func TestLongBatchThroughPgBouncer(t *testing.T) {
	t.Parallel()

	for _, w := range throughBouncer(t) {
		w.run(t, fates)
	}
}

func (w batchWay) run(t *testing.T, test func(*testing.T, context.Context, *fixture)) {
	t.Run(w.String(), func(t *testing.T) {
		t.Parallel()
		ctx, f := w.setup(t, &dedup.Options{Retry: quickRetry})
		test(t, ctx, f)
	})
}

func TestBatchSizes(t *testing.T) {
	t.Parallel()
	batchSizes(t, 1, 7, 100)
}

func TestLongBatchSizes(t *testing.T) {
	t.Parallel()
	batchSizes(t, 1000)
}

func batchSizes(t *testing.T, sizes ...int) {
	t.Helper()
	for _, w := range []batchWay{{profile: plain}, {profile: plain, separate: true}} {
		for _, size := range sizes {
			t.Run(fmt.Sprint(w, "-", size), func(t *testing.T) {
				t.Parallel()
				ctx, f := w.setup(t, nil)
				n := 2*size + 3
				if size == 1 {
					n = 20
				}
				var seen []dedup.BatchData
				opts := &dedup.BatchOptions{Size: size, Progress: func(p dedup.BatchData) { seen = append(seen, p) }}
				for _, replayed := range []bool{false, true} {
					d := f.d
					if replayed { // by somebody who has not met them
						d = newDeduper(t, f.pool, &f.opts)
					}
					seen = nil
					i := 0
					for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(singles("k", n)), opts) {
						require.NoError(t, out.Err)
						require.Equal(t, i, out.Index)
						require.Equal(t, replayed, out.Result.Replayed)
						require.Equal(t, out.Call.Key, out.Result.Value.Title)
						i++
					}
					require.Equal(t, n, i)
					require.Len(t, seen, (n+size-1)/size)
					want := dedup.BatchData{Calls: int64(n), Executed: int64(n)}
					if replayed {
						want.Executed, want.Replayed = 0, int64(n)
					}
					last := seen[len(seen)-1]
					require.Positive(t, last.Duration)
					last.CallData, last.Duration = dedup.CallData{}, 0
					require.Equal(t, want, last)
				}
				f.exactly(t, n)
				require.Equal(t, int64(n), scalar[int64](t, f.bundle, `SELECT last_value FROM runs`), "runs")
			})
		}
	}
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

	for _, w := range []batchWay{{profile: plain}, {profile: plain, separate: true}} {
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
	for name, c := range map[string]struct {
		d    *dedup.Deduper
		seq  iter.Seq[dedup.StatementCall]
		size int
		ctx  context.Context
	}{
		"NoIterator": {d: f.d, ctx: ctx},
		"NoDeduper":  {seq: one, ctx: ctx},
		"NoContext":  {d: f.d, seq: one},
		"SizeLow":    {d: f.d, seq: one, ctx: ctx, size: -1},
		"SizeHigh":   {d: f.d, seq: one, ctx: ctx, size: 1001},
	} {
		outcomes := slices.Collect(dedup.DoBatch[ticket](c.ctx, c.d, c.seq, &dedup.BatchOptions{Size: c.size}))
		require.Len(t, outcomes, 1, name)
		require.Equal(t, -1, outcomes[0].Index, name)
		var invalid *dedup.InvalidError
		if c.size != 0 {
			require.ErrorIs(t, outcomes[0].Err, dedup.ErrInvalid, name)
		} else {
			require.ErrorAs(t, outcomes[0].Err, &invalid, name)
		}
	}
	require.Empty(t, slices.Collect(dedup.DoBatch[ticket](ctx, f.d, slices.Values[[]dedup.StatementCall](nil), nil)))
	for out := range dedup.DoBatch[int](ctx, f.d, one, nil) { // an R that takes no row
		var invalid *dedup.InvalidError
		require.ErrorAs(t, out.Err, &invalid)
		require.Equal(t, "R", invalid.Field)
	}
	_, err := dedup.Do(ctx, f.d, call("outer"), func(ctx context.Context, _ pgx.Tx) (int, error) {
		for out := range dedup.DoBatch[ticket](ctx, f.d, one, nil) {
			require.ErrorIs(t, out.Err, dedup.ErrInvalid)
		}
		return 1, nil
	})
	require.NoError(t, err)
	f.exactlyNothing(t)
}

// An iterator that uses its slice, its buffer and its variable again leaves what it
// has yielded as it was.
func TestBatchKeepsArguments(t *testing.T) {
	t.Parallel()

	ctx, f := batchWay{profile: plain}.setup(t, nil)
	const sql = `INSERT INTO effects (ref, run) VALUES ($1, nextval('runs'))
		RETURNING ref AS slice, convert_from($2, 'UTF8') AS buffer, $3::text AS pointer, $4::text[] AS list, convert_from(($5::bytea[])[1], 'UTF8') AS deep`
	type row struct {
		Slice, Buffer, Pointer, Deep string
		List                         []string
	}
	args, buffer, text, list := make([]any, 5), make([]byte, 0, 8), "", make([]string, 1)
	calls := func(yield func(dedup.StatementCall) bool) {
		for i := range 7 {
			text = fmt.Sprint("key-", i)
			buffer = append(buffer[:0], text...)
			list[0] = text
			args[0], args[1], args[2], args[3], args[4] = text, buffer, &text, list, [][]byte{buffer}
			if !yield(dedup.StatementCall{Call: call(text), Statement: dedup.SQL(sql, args...)}) {
				return
			}
		}
	}
	for replayed := range 2 {
		for out := range dedup.DoBatch[row](ctx, f.d, calls, &dedup.BatchOptions{Size: 5}) {
			require.NoError(t, out.Err)
			key := out.Call.Key
			require.Equal(t, fmt.Sprint("key-", out.Index), key)
			require.Equal(t, row{key, key, key, key, []string{key}}, out.Result.Value)
			require.Equal(t, replayed == 1, out.Result.Replayed)
		}
	}
	require.Equal(t, 7, scalar[int](t, f.bundle, `SELECT count(DISTINCT ref) FROM effects`))
}

// exactlyNothing requires that no statement has run.
func (f *fixture) exactlyNothing(t *testing.T) {
	t.Helper()
	require.False(t, scalar[bool](t, f.bundle, `SELECT is_called FROM runs`))
}

// A batch's statements travel in as few round trips as promised.
func TestBatchRoundTrips(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		batchWay
		first, replays int
	}{
		{batchWay{profile: profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted}}, 1, 1},
		{batchWay{profile: profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec}}, 1, 1},
		{batchWay{profile: profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol}}, 1, 1},
		{batchWay{profile: profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted}, separate: true}, 3 * 100, 1},
		{batchWay{profile: profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}}, 1 + 3*100, 1},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, c.profile, &dedup.Options{Retention: apart(c.separate)})
			f.exec(t, fixtureSQL)
			send := func(prefix string, look bool) func() {
				return func() {
					calls := singles(prefix, 100)
					for i := range calls {
						calls[i].Call.LookFirst = look
					}
					for out := range dedup.DoBatch[ticket](ctx, f.d, slices.Values(calls), nil) {
						require.NoError(t, out.Err)
						require.Equal(t, look, out.Result.Replayed)
					}
				}
			}
			send("warm", false)()
			send("warm", true)()
			require.Equal(t, c.first, trips(t, proxy, send("a", false)), "first calls")
			require.Equal(t, c.replays, trips(t, proxy, send("a", true)), "replays")
		})
	}
}

// separateWays are those in which effect and record are statements of their own.
func separateWays() []batchWay {
	return []batchWay{
		{profile: plain, separate: true},
		{profile: profile{order: dedup.LockFirst, isolation: pgx.Serializable}},
		{profile: profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}},
	}
}

// A call whose record may be forgotten and that has a twin in flight is answered
// like any other, and costs the calls beside it nothing, whatever becomes of their
// connection.
func TestBatchForgottenInFlight(t *testing.T) {
	t.Parallel()

	for _, w := range separateWays() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, w.profile, &dedup.Options{Retention: apart(w.separate), Retry: quickRetry})
			f.exec(t, fixtureSQL)
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
