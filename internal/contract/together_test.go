package contract_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// togetherWays are the ways in which DoTogether goes to the server: it does not
// send combined statements.
func togetherWays() []batchWay {
	ways := []batchWay{{profile: profile{order: dedup.LockFirst, isolation: pgx.RepeatableRead}}}
	for _, w := range batchWays() {
		if !w.separate {
			ways = append(ways, w)
		}
	}
	return ways
}

func TestTogether(t *testing.T) {
	t.Parallel()

	for _, w := range togetherWays() {
		w.run(t, together)
	}
}

func TestTogetherThroughPgBouncer(t *testing.T) {
	t.Parallel()

	for _, w := range throughBouncer(t) {
		if !w.separate {
			w.run(t, together)
		}
	}
}

func together(t *testing.T, ctx context.Context, f *fixture) {
	t.Run("AllOrNone", func(t *testing.T) { togetherAllOrNone(t, ctx, f) })
	t.Run("Failures", func(t *testing.T) { togetherFailures(t, ctx, f) })
	t.Run("InFlight", func(t *testing.T) { togetherInFlight(t, ctx, f) })
}

// togetherAllOrNone: first calls, replays and twins in one slice; then all again.
func togetherAllOrNone(t *testing.T, ctx context.Context, f *fixture) {
	before := single("before")
	old, err := dedup.DoStatement[ticket](ctx, f.d, before.Call, before.Statement)
	require.NoError(t, err)
	forgotten := single("forgotten")
	_, err = dedup.DoStatement[ticket](ctx, f.d, forgotten.Call, forgotten.Statement)
	require.NoError(t, err)
	f.age(t, "forgotten", "2000 hours")

	calls := append(singles("b", 3), before, forgotten, single("b-0001"))
	slices.Reverse(calls)
	first, err := dedup.DoTogether[ticket](ctx, f.d, calls)
	require.NoError(t, err)
	require.Len(t, first, len(calls))
	for i, r := range first {
		require.Equal(t, calls[i].Call.Key, r.Value.Title)
		require.Equal(t, i == 2 || i == 4, r.Replayed, "%d", i)
		require.Equal(t, 1, max(1, r.Attempts))
	}
	require.Equal(t, first[0].Value, first[4].Value, "twins in the slice")
	require.Equal(t, old.Value, first[2].Value)
	require.Equal(t, 2, f.effects(t, "forgotten"))

	for _, look := range []bool{false, true} {
		calls[1].Call.LookFirst = look
		again, err := dedup.DoTogether[ticket](ctx, f.d, calls)
		require.NoError(t, err)
		for i, r := range again {
			require.True(t, r.Replayed)
			require.Equal(t, first[i].Value, r.Value)
			require.True(t, first[i].CreatedAt.Equal(r.CreatedAt))
			require.True(t, first[i].ExpiresAt.Equal(r.ExpiresAt))
		}
	}
	f.exec(t, `DELETE FROM effects WHERE ref = 'forgotten' AND run = (SELECT min(run) FROM effects WHERE ref = 'forgotten')`)
	f.exactly(t, 5)
}

// togetherFailures: whatever is wrong with one call, nothing of the others
// happens, and the error names it.
func togetherFailures(t *testing.T, ctx context.Context, f *fixture) {
	with := func(c dedup.StatementCall, change func(*dedup.StatementCall)) dedup.StatementCall {
		change(&c)
		return c
	}
	sql := func(text string) func(*dedup.StatementCall) {
		return func(c *dedup.StatementCall) { c.Statement = dedup.SQL(text) }
	}
	otherArgs := func(c *dedup.StatementCall) { c.Call.Args = map[string]any{"title": "coffee machine on fire"} }
	records, effects := f.records(t), scalar[int](t, f.bundle, `SELECT count(*) FROM effects`)
	for _, key := range []string{"x reused", "x expired"} {
		c := single(key)
		_, err := dedup.DoStatement[ticket](ctx, f.d, c.Call, c.Statement)
		require.NoError(t, err)
	}
	f.age(t, "x expired", "25 hours")
	final := spoiling("x final", "22012")
	final.Statement.OnError = func(error) error { return dedup.Final(errPaper) }
	refused := final
	refused.Call.Key, refused.Statement.Args = "x refused", []any{"x refused", "22012"}
	_, err := dedup.DoStatement[ticket](ctx, f.d, refused.Call, refused.Statement)
	require.ErrorIs(t, err, dedup.ErrRefused)

	for name, c := range map[string]struct {
		bad dedup.StatementCall
		err error
	}{
		"NoScope":     {with(single("x"), func(c *dedup.StatementCall) { c.Call.Scope = "" }), dedup.ErrInvalid},
		"NoSQL":       {with(single("x"), sql("")), errAny},
		"Reused":      {with(single("x reused"), otherArgs), dedup.ErrKeyReused},
		"Expired":     {single("x expired"), dedup.ErrExpired},
		"Refused":     {refused, dedup.ErrRefused},
		"Final":       {final, errPaper},
		"Stored":      {with(spoiling("x", "22012"), func(c *dedup.StatementCall) { c.Call.Errors = dedup.ErrorsStored }), errAny},
		"Failing":     {spoiling("x", "23514"), errAny},
		"Unique":      {spoiling("x", "23505"), errAny},
		"NoRow":       {with(single("x"), sql(`SELECT 1 AS id WHERE false`)), pgx.ErrNoRows},
		"TwoRows":     {with(single("x"), sql(`VALUES (1), (2)`)), pgx.ErrTooManyRows},
		"NoTable":     {with(single("x"), sql(`SELECT id FROM missing`)), errAny},
		"BadArgument": {with(single("x"), func(c *dedup.StatementCall) { c.Statement.Args = []any{make(chan int)} }), errAny},
		"TooLong":     {with(single("x"), sql(`SELECT repeat('x', 2000000) AS title`)), dedup.ErrInvalid},
		"Transient":   {spoiling("x", "40001"), dedup.ErrAttemptsExhausted},
		"TwinOther":   {with(single("f-0000"), otherArgs), dedup.ErrKeyReused},
	} {
		calls := append(singles("f", 6), c.bad, single("z"))
		results, err := dedup.DoTogether[ticket](ctx, f.d, calls)
		require.Nil(t, results, name)
		var named *dedup.BatchError
		require.ErrorAs(t, err, &named, name)
		require.Equal(t, 6, named.Index, name)
		require.Equal(t, c.bad.Call.Tool, named.Tool, name)
		require.Equal(t, c.bad.Call.Scope, named.Scope, name)
		require.Equal(t, dedup.KeyHash(c.bad.Call.Key), named.KeyHash, name)
		if c.err != errAny {
			require.ErrorIs(t, err, c.err, name)
		}
		require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown, name)
		require.Equal(t, name == "Transient", dedup.IsRetryable(err), name)
		require.Equal(t, records+3, f.records(t), name)
		require.Equal(t, effects+2, scalar[int](t, f.bundle, `SELECT count(*) FROM effects`), name)
	}

	// Nothing was recorded, so that all of them may be made still.
	results, err := dedup.DoTogether[ticket](ctx, f.d, append(singles("f", 6), single("x final"), single("x")))
	require.NoError(t, err)
	for _, r := range results {
		require.False(t, r.Replayed)
	}
}

// togetherInFlight: one twin in flight holds up all, or refuses them.
func togetherInFlight(t *testing.T, ctx context.Context, f *fixture) {
	effects := scalar[int](t, f.bundle, `SELECT count(*) FROM effects`)
	held, peer := newGate(), f.peer(t)
	e := &tool{ref: "w busy", then: held.then}
	pending := start(ctx, peer, call("w busy"), e.run)
	receive(t, ctx, held.entered)

	calls := append(singles("w", 3), single("w busy"))
	calls[3].Call.MaxWait = -1
	_, err := dedup.DoTogether[ticket](ctx, f.d, calls)
	var named *dedup.BatchError
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.ErrorAs(t, err, &named)
	require.Equal(t, 3, named.Index)
	calls[3].Call.MaxWait = 20 * time.Millisecond
	_, err = dedup.DoTogether[ticket](ctx, f.d, calls)
	require.ErrorIs(t, err, dedup.ErrInFlight)
	calls[3].Call.MaxWait = 0
	calling, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = dedup.DoTogether[ticket](calling, f.d, calls)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)

	waiting := func(all []any) (n int) {
		for _, e := range ofType[dedup.WaitStartData](all) {
			if e.Key == "w busy" {
				n++
			}
		}
		return n
	}
	var before int
	require.NoError(t, f.events.until(ctx, func(all []any) bool { before = waiting(all); return true }))
	type answer struct {
		results []dedup.Result[ticket]
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		results, err := dedup.DoTogether[ticket](ctx, f.d, calls)
		done <- answer{results, err}
	}()
	require.NoError(t, f.events.until(ctx, func(all []any) bool { return waiting(all) > before }))
	held.release()
	got := receive(t, ctx, done)
	require.NoError(t, got.err)
	require.Equal(t, receive(t, ctx, pending).require(t).Value, got.results[3].Value)
	require.True(t, got.results[3].Replayed)
	require.Positive(t, got.results[3].Waited)
	for _, r := range got.results[:3] {
		require.False(t, r.Replayed)
	}
	require.Equal(t, effects+4, scalar[int](t, f.bundle, `SELECT count(*) FROM effects`))
}

func TestTogetherInput(t *testing.T) {
	t.Parallel()

	ctx, f := batchWay{profile: plain}.setup(t, nil)
	for _, none := range [][]dedup.StatementCall{nil, {}} {
		results, err := dedup.DoTogether[ticket](ctx, f.d, none)
		require.NoError(t, err)
		require.NotNil(t, results)
		require.Empty(t, results)
	}
	var invalid *dedup.InvalidError
	var named *dedup.BatchError
	for field, try := range map[string]func() error{
		"ctx":   func() error { _, err := dedup.DoTogether[ticket](nil, f.d, singles("k", 1)); return err }, //nolint:staticcheck // nil is the case
		"d":     func() error { _, err := dedup.DoTogether[ticket](ctx, nil, singles("k", 1)); return err },
		"R":     func() error { _, err := dedup.DoTogether[int](ctx, f.d, singles("k", 1)); return err },
		"calls": func() error { _, err := dedup.DoTogether[ticket](ctx, f.d, singles("k", 10_001)); return err },
	} {
		err := try()
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field, invalid.Field)
		require.NotErrorAs(t, err, &named, field)
	}
	_, err := dedup.Do(ctx, f.d, call("outer"), func(ctx context.Context, _ pgx.Tx) (int, error) {
		_, err := dedup.DoTogether[ticket](ctx, f.d, singles("k", 1))
		require.ErrorIs(t, err, dedup.ErrInvalid)
		return 1, nil
	})
	require.NoError(t, err)
	f.exactlyNothing(t)
}

// Thousands of calls are one transaction still.
func TestTogetherMany(t *testing.T) {
	t.Parallel()

	for _, w := range []batchWay{{profile: plain}, {profile: profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec}}} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := w.setup(t, nil)
			calls := singles("k", 1300)
			calls[1234] = spoiling("late", "23514")
			_, err := dedup.DoTogether[ticket](ctx, f.d, calls)
			var named *dedup.BatchError
			require.ErrorAs(t, err, &named)
			require.Equal(t, 1234, named.Index)
			f.exactly(t, 0)

			calls[1234] = single("late")
			results, err := dedup.DoTogether[ticket](ctx, f.d, calls)
			require.NoError(t, err)
			for i, r := range results {
				require.Equal(t, calls[i].Call.Key, r.Value.Title)
				require.False(t, r.Replayed)
			}
			f.exactly(t, 1300)
			require.Equal(t, 1, scalar[int](t, f.bundle, `SELECT count(DISTINCT xmin::text) FROM tool_dedup`), "transactions")
		})
	}
}

func TestTogetherRoundTrips(t *testing.T) {
	t.Parallel()

	for _, w := range []batchWay{
		{profile: profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted}},
		{profile: profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeExec}},
		{profile: profile{order: dedup.LockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol}},
		{profile: profile{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}},
	} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, w.profile, nil)
			f.exec(t, fixtureSQL)
			// Replays are another Deduper's: this one would look first.
			stranger := newDeduper(t, f.pool, &f.opts)
			send := func(prefix string, n int, look, replayed bool) func() {
				return func() {
					d := f.d
					if replayed {
						d = stranger
					}
					calls := singles(prefix, n)
					calls[0].Call.LookFirst = look
					results, err := dedup.DoTogether[ticket](ctx, d, calls)
					require.NoError(t, err)
					for _, r := range results {
						require.Equal(t, replayed, r.Replayed)
					}
				}
			}
			send("warm", 2, false, false)()
			send("warm", 2, false, true)()
			send("warm", 2, true, true)()
			require.Equal(t, 3, trips(t, proxy, send("a", 100, false, false)), "first calls")
			require.Equal(t, 2, trips(t, proxy, send("a", 100, false, true)), "replays")
			require.Equal(t, 1, trips(t, proxy, send("a", 100, true, true)), "replays looked up first")
			// On a busy machine the server answers the beginning of a long pipeline before the proxy has seen its
			// end, and the client does not wait for that: the least of a few is what it does wait for.
			least := math.MaxInt
			for i := 0; i < 10 && least > 5; i++ {
				least = min(least, trips(t, proxy, send(fmt.Sprintf("b%d-", i), 600, false, false)))
			}
			require.Equal(t, 5, least, "600 calls")
		})
	}
}
