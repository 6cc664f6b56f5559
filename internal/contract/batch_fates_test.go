package contract_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// fate is a call of a batch, and what is to become of it.
type fate struct {
	dedup.StatementCall
	// prepare comes before the batch.
	prepare func(t *testing.T, ctx context.Context, f *fixture, c dedup.StatementCall)
	err     error
	// replayed and effects are those of DoBatch.
	replayed bool
	effects  int
}

// fates has every kind of call in one batch: each gets what DoStatement answers,
// and none spoils another.
func fates(t *testing.T, ctx context.Context, f *fixture) {
	run := func(t *testing.T, ctx context.Context, f *fixture, c dedup.StatementCall) {
		_, err := dedup.DoStatement[ticket](ctx, f.d, c.Call, c.Statement)
		require.NoError(t, err)
	}
	older := func(by string) func(*testing.T, context.Context, *fixture, dedup.StatementCall) {
		return func(t *testing.T, ctx context.Context, f *fixture, c dedup.StatementCall) {
			run(t, ctx, f, c)
			f.age(t, c.Call.Key, by)
		}
	}
	with := func(c dedup.StatementCall, change func(*dedup.StatementCall)) dedup.StatementCall {
		change(&c)
		return c
	}
	otherArgs := func(c *dedup.StatementCall) { c.Call.Args = map[string]any{"title": "coffee machine on fire"} }
	noScope := func(c *dedup.StatementCall) { c.Call.Scope = "" }
	impatient := func(c *dedup.StatementCall) { c.Call.MaxWait = -1 }
	lookFirst := func(c *dedup.StatementCall) { c.Call.LookFirst = true }
	final := func(c *dedup.StatementCall) {
		c.Statement.OnError = func(err error) error { return dedup.Final(errPaper) }
	}
	stored := func(c *dedup.StatementCall) { c.Call.StoreErrors = true }
	sql := func(text string) func(*dedup.StatementCall) {
		return func(c *dedup.StatementCall) { c.Statement = dedup.SQL(text) }
	}

	// Twins in flight are other processes' Do, held in their effects.
	held, holder := newGate(), f.peer(t)
	var pending []<-chan answered
	inFlight := func(t *testing.T, ctx context.Context, f *fixture, c dedup.StatementCall) {
		entered := make(chan struct{})
		pending = append(pending, start(ctx, holder, c.Call, func(ctx context.Context, tx pgx.Tx) (ticket, error) {
			var id int
			err := tx.QueryRow(ctx, effectSQL, c.Call.Key).Scan(&id, nil)
			if err != nil {
				return ticket{}, err
			}
			select {
			case <-entered:
			default:
				close(entered)
			}
			return ticket{ID: id, Title: c.Call.Key}, held.pass(ctx)
		}))
		receive(t, ctx, entered)
	}

	pastResult := "25 hours"
	if f.opts.Retention.Result != 0 {
		pastResult = "40 minutes" // see apart
	}
	all := []fate{
		{StatementCall: single("first"), effects: 1},
		{StatementCall: single("replay"), prepare: run, replayed: true, effects: 1},
		{StatementCall: with(single("reused"), otherArgs), prepare: func(t *testing.T, ctx context.Context, f *fixture, _ dedup.StatementCall) {
			run(t, ctx, f, single("reused"))
		}, err: dedup.ErrKeyReused, replayed: true, effects: 1},
		{StatementCall: single("expired"), prepare: older(pastResult), err: dedup.ErrExpired, replayed: true, effects: 1},
		{StatementCall: single("forgotten"), prepare: older("2000 hours"), effects: 2},
		{StatementCall: with(spoiling("refused", "22012"), final), err: dedup.ErrRefused},
		{StatementCall: with(spoiling("stored", "22012"), stored), err: dedup.ErrRefused},
		{StatementCall: spoiling("failing", "23514"), err: errAny},
		{StatementCall: with(single("no row"), sql(`SELECT 1 AS id WHERE false`)), err: pgx.ErrNoRows},
		{StatementCall: with(single("two rows"), sql(`VALUES (1), (2)`)), err: pgx.ErrTooManyRows},
		{StatementCall: with(single("no table"), sql(`SELECT id FROM missing`)), err: errAny},
		{StatementCall: with(single("bad argument"), func(c *dedup.StatementCall) { c.Statement.Args = []any{make(chan int)} }), err: errAny},
		{StatementCall: with(single("busy"), impatient), prepare: inFlight, err: dedup.ErrInFlight, effects: 1},
		{StatementCall: with(single("no scope"), noScope), err: dedup.ErrInvalid},
		{StatementCall: single("last"), effects: 1},
		{StatementCall: with(single("looked"), lookFirst), effects: 1},
		{StatementCall: single("waits"), prepare: inFlight, replayed: true, effects: 1},
		// Twins in one chunk, of a call that runs, one that waits, and one that
		// fails; and across chunks.
		{StatementCall: single("first"), replayed: true, effects: 1},
		{StatementCall: with(single("first"), otherArgs), err: dedup.ErrKeyReused, replayed: true, effects: 1},
		{StatementCall: single("waits"), replayed: true, effects: 1},
		{StatementCall: spoiling("failing", "23514"), err: errAny},
		{StatementCall: with(spoiling("refused", "22012"), final), err: dedup.ErrRefused, replayed: true},
	}
	var calls []dedup.StatementCall
	for _, fate := range all {
		if fate.prepare != nil {
			fate.prepare(t, ctx, f, fate.StatementCall)
		}
		calls = append(calls, fate.StatementCall)
	}
	calls = append(calls, singles("filler", 80)...)
	calls = append(calls, all[0].StatementCall, singles("filler", 1)[0])

	// The twin in flight ends when the batch waits for it.
	go func() {
		_ = f.events.until(ctx, func(all []any) bool {
			return slices.ContainsFunc(ofType[dedup.WaitStartData](all), func(e dedup.WaitStartData) bool { return e.Key == "waits" })
		})
		held.release()
	}()
	var progress dedup.BatchData
	outcomes := slices.Collect(dedup.DoBatch[ticket](ctx, f.d, slices.Values(calls), &dedup.BatchOptions{
		Progress: func(p dedup.BatchData) { progress = p },
	}))
	for _, p := range pending {
		receive(t, ctx, p).require(t)
	}

	// At stricter levels the server may abort the twin that is waited for, as one
	// that cannot be serialized: then the batch runs the call in its place.
	tookOver, taken := -1, false
	if !f.profile.fresh() {
		tookOver = slices.IndexFunc(all, func(one fate) bool { return one.Call.Key == "waits" })
	}
	require.Len(t, outcomes, len(calls))
	failed, replayed := 0, 0
	for i, out := range outcomes {
		if out.Result.Replayed && (out.Err == nil || errors.Is(out.Err, dedup.ErrRefused)) {
			replayed++
		}
		require.Equal(t, i, out.Index)
		require.Equal(t, calls[i].Call, out.Call)
		want := fate{effects: 1, replayed: i >= len(calls)-2}
		if i < len(all) {
			want = all[i]
		}
		key := fmt.Sprint(i, " ", out.Call.Key)
		if want.err != nil {
			failed++
		}
		if want.err == errAny {
			require.Error(t, out.Err, key)
		} else {
			require.ErrorIs(t, out.Err, want.err, key)
		}
		if i == tookOver {
			taken = !out.Result.Replayed
		} else {
			require.Equal(t, want.replayed, out.Result.Replayed, key)
		}
		if out.Call.Scope == "" {
			continue
		}
		require.Equal(t, want.effects, f.effects(t, out.Call.Key), key)

		// What DoStatement answers now is what the batch has answered.
		c := calls[i]
		again, err := dedup.DoStatement[ticket](ctx, f.d, c.Call, c.Statement)
		if errors.Is(want.err, dedup.ErrInFlight) { // that has ended by now
			require.NoError(t, err)
			continue
		}
		if want.err == nil {
			require.NoError(t, err, key)
			require.Equal(t, out.Result.Value, again.Value, key)
			require.True(t, out.Result.CreatedAt.Equal(again.CreatedAt), key)
			require.True(t, out.Result.ExpiresAt.Equal(again.ExpiresAt), key)
			continue
		}
		require.EqualError(t, err, out.Err.Error(), key)
	}
	require.Equal(t, int64(len(calls)), progress.Calls)
	require.Equal(t, int64(failed), progress.Failed)
	require.Equal(t, int64(replayed), progress.Replayed, "a reused key has failed, and is no replay")
	executed := progress.Executed
	if taken {
		executed--
	}
	require.Equal(t, scalar[int64](t, f.bundle, `SELECT count(*) FROM effects WHERE ref LIKE 'filler%' OR ref IN ('first', 'last', 'looked', 'forgotten')`)-1+2, executed,
		"those that ran, and two refusals")
}

// errAny stands for some error.
var errAny = errors.New("any")

// TestBatchWithARecordOfALaterVersion: a record whose outcome this version does not know is the
// answer of nobody.
func TestBatchWithARecordOfALaterVersion(t *testing.T) {
	t.Parallel()

	for _, w := range batchWays() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := w.setup(t, nil)
			calls := singles("k", 3)
			_, err := byBatch(ctx, f.d, calls)
			require.NoError(t, err)
			f.exec(t, `UPDATE tool_dedup SET outcome = 'later' WHERE key = $1`, calls[1].Call.Key)
			for out := range dedup.DoBatch[ticket](ctx, f.d, slices.Values(calls), nil) {
				if out.Index == 1 {
					require.ErrorContains(t, out.Err, "which this version of the library has not written")
				} else {
					require.NoError(t, out.Err)
					require.True(t, out.Result.Replayed)
				}
			}
		})
	}
}
