package dedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// contractCase is one promise, tried in every variant.
type contractCase struct {
	name string
	run  func(t *testing.T, v variant)
	// locksOnly: a claim lets no rival past, see RivalPastTheLock.
	locksOnly bool
}

// contract is what every order, isolation level and exec mode must keep,
// directly and through a pooler.
func contract() []contractCase {
	cases := []contractCase{
		{name: "FirstThenReplay", run: caseFirstThenReplay},
		{name: "EffectErrorRollsBack", run: caseEffectError},
		{name: "FinalIsTheAnswer", run: caseFinal},
		{name: "StoreErrors", run: caseStoreErrors},
		{name: "KeyReused", run: caseKeyReused},
		{name: "ExpiredThenForgotten", run: caseExpired},
		{name: "ForgottenIsTakenOver", run: caseTakeover},
		{name: "Reset", run: caseReset},
		{name: "Lookup", run: caseLookup},
		{name: "RivalPastTheLock", run: caseRival},
		{name: "OwnUniqueIndexFirst", run: caseOwnUnique, locksOnly: true},
		{name: "OwnLookFirst", run: caseOwnLook, locksOnly: true},
		{name: "DeferredConstraintAtCommit", run: caseDeferred},
		{name: "TransientInTheEffect", run: caseTransient},
		{name: "TransientForEver", run: caseTransientForEver},
		{name: "MaxWaitNone", run: caseMaxWaitNone},
		{name: "MaxWaitBounded", run: caseMaxWaitBounded},
		{name: "WaitingTwinCancelled", run: caseWaitCancelled},
		{name: "LeaderCancelled", run: caseLeaderCancelled},
		{name: "LeaderPanics", run: caseLeaderPanics},
		{name: "NestedDo", run: caseNested},
		{name: "SlowEffectIsNotBornExpired", run: caseBornExpired},
	}
	for _, n := range []int{2, 8, 50} {
		cases = append(cases,
			contractCase{name: fmt.Sprintf("Twins%dInOneProcess", n), run: func(t *testing.T, v variant) { caseTwins(t, v, n) }},
			contractCase{name: fmt.Sprintf("Twins%dInTwoProcesses", n), run: func(t *testing.T, v variant) { caseTwinsApart(t, v, n) }})
	}
	cases = append(cases, contractConstraints()...)
	return append(cases, contractDoTx()...)
}

func runContract(t *testing.T, v variant) {
	t.Run(v.String(), func(t *testing.T) {
		t.Parallel()
		for _, c := range contract() {
			if c.locksOnly && !v.locks() {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, v)
			})
		}
	})
}

func TestContract(t *testing.T) {
	t.Parallel()

	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		for _, isolation := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
			runContract(t, variant{order: order, isolation: isolation})
		}
	}
}

func TestContractExecModes(t *testing.T) {
	t.Parallel()

	for _, v := range []variant{
		{order: dedup.LockFirst, mode: pgx.QueryExecModeCacheDescribe},
		{order: dedup.LockFirst, mode: pgx.QueryExecModeDescribeExec},
		{order: dedup.LockFirst, mode: pgx.QueryExecModeSimpleProtocol},
		{order: dedup.ClaimFirst, mode: pgx.QueryExecModeExec},
	} {
		v.isolation = pgx.ReadCommitted
		runContract(t, v)
	}
}

func caseFirstThenReplay(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	e := &tool{ref: "k"}

	first, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	require.False(t, first.Replayed)
	require.False(t, first.Recovered)
	require.Equal(t, ticket{ID: 1, Title: "k"}, first.Value)
	require.Equal(t, 1, first.Attempts)
	require.Zero(t, first.Waited)
	require.Equal(t, 24*time.Hour, first.ExpiresAt.Sub(first.CreatedAt).Round(time.Second))

	for _, d := range []*dedup.Deduper{f.d, f.peer(t)} {
		again, err := dedup.Do(ctx, d, call("k"), e.run)
		require.NoError(t, err)
		require.True(t, again.Replayed)
		require.False(t, again.Recovered)
		require.Equal(t, first.Value, again.Value)
		require.True(t, first.CreatedAt.Equal(again.CreatedAt))
		require.True(t, first.ExpiresAt.Equal(again.ExpiresAt))
	}
	for _, other := range []dedup.Call{
		{Scope: "umbrella", Tool: "create_ticket", Key: "k"}, {Scope: "acme", Tool: "close_ticket", Key: "k"}, {Scope: "acme", Tool: "create_ticket", Key: "K"},
	} {
		stranger, err := dedup.Do(ctx, f.d, other, e.run)
		require.NoError(t, err)
		require.False(t, stranger.Replayed, "%+v", other)
	}
	e.requireRuns(t, 4)
	require.Equal(t, 4, f.effects(t, "k"))
	require.Equal(t, 4, f.records(t))
}

func caseTwins(t *testing.T, v variant, n int) {
	ctx, f := v.setup(t, nil)
	e := &tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
		return f.events.untilWaiting(ctx, n-1, 0)
	}}

	var pending []<-chan answered
	for range n {
		pending = append(pending, start(ctx, f.d, call("k"), e.run))
	}
	var answers []dedup.Result[ticket]
	for _, p := range pending {
		answers = append(answers, receive(t, ctx, p).require(t))
	}

	requireTwins(t, answers)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
}

func caseTwinsApart(t *testing.T, v variant, n int) {
	ctx, f := v.setup(t, nil)
	peer := f.peer(t)
	e := &tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
		return f.events.untilWaiting(ctx, n-2, 1)
	}}

	var pending []<-chan answered
	for i := range n {
		pending = append(pending, start(ctx, []*dedup.Deduper{f.d, peer}[i%2], call("k"), e.run))
	}
	var answers []dedup.Result[ticket]
	for _, p := range pending {
		answers = append(answers, receive(t, ctx, p).require(t))
	}

	requireTwins(t, answers)
	if v.fresh() { // an older snapshot may cost a run in vain
		e.requireRuns(t, 1)
	}
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
}

func caseEffectError(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	e := &tool{ref: "k", then: func(_ context.Context, _ pgx.Tx, run int) error {
		if run == 1 {
			return errPaper
		}
		return nil
	}}

	_, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.ErrorIs(t, err, errPaper)
	require.Zero(t, f.effects(t, "k"))
	require.Zero(t, f.records(t))

	second, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	require.False(t, second.Replayed)
	require.Equal(t, 2, second.Value.ID)
	require.Equal(t, 1, f.effects(t, "k"))
}

// declined is a refusal with everything that one can have.
type declined struct{ Balance int }

func (declined) Error() string { return "card declined" }
func (declined) Code() string  { return "card_declined" }
func (d declined) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"balance":%d}`, d.Balance), nil
}

func caseFinal(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	e := &tool{ref: "k", then: func(context.Context, pgx.Tx, int) error {
		return fmt.Errorf("charging: %w", dedup.Final(declined{Balance: 3}))
	}}

	var first, again *dedup.RefusedError
	_, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.ErrorIs(t, err, dedup.ErrRefused)
	require.ErrorAs(t, err, &first)
	require.False(t, first.Replayed)
	require.ErrorIs(t, err, declined{Balance: 3}, "the caller that ran it has the effect's own error")

	result, err := dedup.Do(ctx, f.peer(t), call("k"), e.run)
	require.True(t, result.Replayed)
	require.ErrorAs(t, err, &again)
	require.True(t, again.Replayed)
	require.NoError(t, errors.Unwrap(again))
	require.Equal(t, first.Message, again.Message)
	require.Equal(t, "card_declined", again.Code)
	require.JSONEq(t, `{"balance":3}`, string(again.Details))
	require.Equal(t, first.Details, again.Details)
	require.True(t, first.CreatedAt.Equal(again.CreatedAt))

	e.requireRuns(t, 1)
	require.Zero(t, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
}

func caseStoreErrors(t *testing.T, v variant) {
	ctx, f := v.setup(t, &dedup.Options{StoreErrors: true})
	e := &tool{ref: "k", then: func(context.Context, pgx.Tx, int) error { return errPaper }}

	_, err := dedup.Do(ctx, f.d, call("stored"), e.run)
	require.ErrorIs(t, err, dedup.ErrRefused)
	require.ErrorIs(t, err, errPaper)
	_, err = dedup.Do(ctx, f.d, call("stored"), e.run)
	require.ErrorIs(t, err, dedup.ErrRefused)
	require.EqualError(t, err, errPaper.Error())
	e.requireRuns(t, 1)

	c := call("not stored")
	c.Errors = dedup.ErrorsRollBack
	_, err = dedup.Do(ctx, f.d, c, e.run)
	require.ErrorIs(t, err, errPaper)
	require.NotErrorIs(t, err, dedup.ErrRefused)

	cancelled, cancel := context.WithCancel(ctx)
	_, err = dedup.Do(cancelled, f.d, call("cancelled"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		cancel()
		return ticket{}, ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, dedup.ErrRefused)

	require.Zero(t, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
}

func caseKeyReused(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	held := newGate()
	e := &tool{ref: "k", then: held.then}
	first := start(ctx, f.d, call("k"), e.run)
	receive(t, ctx, held.entered)

	// A twin in the same process, with other arguments, while the first runs.
	other := call("k")
	other.Args = map[string]any{"title": "printer is fine", "urgent": false}
	misuse := start(ctx, f.d, other, e.run)
	require.NoError(t, f.events.untilWaiting(ctx, 1, 0))
	held.release()
	receive(t, ctx, first).require(t)

	later, err := dedup.Do(ctx, f.peer(t), other, e.run)
	require.Zero(t, later.Value)
	for _, err := range []error{receive(t, ctx, misuse).err, err} {
		var reused *dedup.KeyReusedError
		require.ErrorIs(t, err, dedup.ErrKeyReused)
		require.ErrorAs(t, err, &reused)
		require.Equal(t, []string{"title", "urgent"}, reused.Changed)
		require.True(t, reused.Complete)
		require.NotEqual(t, reused.First, reused.Now)
		require.NotContains(t, err.Error(), "printer")
	}
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Len(t, events[dedup.KeyReusedData](f.events), 2)
}

func caseExpired(t *testing.T, v variant) {
	ctx, f := v.setup(t, &dedup.Options{Retention: dedup.Retention{Result: time.Hour, Tombstone: time.Hour}})
	e := &tool{ref: "k"}
	_, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)

	f.age(t, "k", "59 minutes")
	replay, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	require.True(t, replay.Replayed)

	f.age(t, "k", "2 minutes")
	for range 2 { // with its result, and as a tombstone
		_, err = dedup.Do(ctx, f.d, call("k"), e.run)
		var expired *dedup.ExpiredError
		require.ErrorIs(t, err, dedup.ErrExpired)
		require.ErrorAs(t, err, &expired)
		require.Equal(t, time.Hour, expired.ExpiredAt.Sub(expired.FirstAt).Round(time.Second))
		swept, err := f.d.Sweep(ctx, nil)
		require.NoError(t, err)
		require.Zero(t, swept.Forgotten)
	}
	e.requireRuns(t, 1)

	f.age(t, "k", "1 hour")
	again, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	require.False(t, again.Replayed)
	require.Equal(t, 2, again.Value.ID)
	require.Equal(t, 2, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
}

// caseTakeover lets four twins, in two processes, have an identity anew while a
// sweeper is after its forgotten record.
func caseTakeover(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	peer := f.peer(t)
	const keys = 6
	effects := make([]tool, keys)
	for i := range keys {
		effects[i].ref = fmt.Sprint(i)
		_, err := dedup.Do(ctx, f.d, call(fmt.Sprint(i)), effects[i].run)
		require.NoError(t, err)
	}
	f.exec(t, `UPDATE tool_dedup SET created_at = now() - interval '3 h', expires_at = now() - interval '2 h', forget_at = now() - interval '1 h'`)

	sweeper, err := dedup.NewSweeper(f.peer(t), &dedup.SweeperOptions{Interval: time.Millisecond, Sweep: dedup.SweepOptions{BatchSize: 1}})
	require.NoError(t, err)
	sweeping, stop := context.WithCancel(ctx)
	swept := make(chan error, 1)
	go func() { swept <- sweeper.Run(sweeping) }()

	pending := make([][]<-chan answered, keys)
	for i := range keys {
		for j := range 4 {
			pending[i] = append(pending[i], start(ctx, []*dedup.Deduper{f.d, peer}[j%2], call(fmt.Sprint(i)), effects[i].run))
		}
	}
	for i := range keys {
		var answers []dedup.Result[ticket]
		for _, p := range pending[i] {
			answers = append(answers, receive(t, ctx, p).require(t))
		}
		requireTwins(t, answers)
		require.Equal(t, 2, f.effects(t, fmt.Sprint(i)), "one of the forgotten call, one of the new")
	}
	stop()
	require.ErrorIs(t, receive(t, ctx, swept), context.Canceled)
	require.Equal(t, keys, f.records(t))
}

func caseReset(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	held := newGate()
	e := &tool{ref: "k", then: held.then}
	c := call("k")

	freed, err := f.d.Reset(ctx, c.Scope, c.Tool, c.Key, "nothing there")
	require.NoError(t, err)
	require.False(t, freed)

	first := start(ctx, f.d, c, e.run)
	receive(t, ctx, held.entered)
	_, err = f.peer(t).Reset(ctx, c.Scope, c.Tool, c.Key, "in flight")
	require.ErrorIs(t, err, dedup.ErrInFlight)
	held.release()
	receive(t, ctx, first).require(t)

	var invalid *dedup.InvalidCallError
	_, err = f.d.Reset(ctx, c.Scope, c.Tool, c.Key, "")
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, 1, f.records(t))

	freed, err = f.d.Reset(ctx, c.Scope, c.Tool, c.Key, "wrong answer")
	require.NoError(t, err)
	require.True(t, freed)
	again, err := dedup.Do(ctx, f.d, c, e.run)
	require.NoError(t, err)
	require.False(t, again.Replayed)
	require.Equal(t, 2, again.Value.ID)

	resets := events[dedup.ResetData](f.events)
	require.Len(t, resets, 2)
	require.False(t, resets[0].Freed)
	require.True(t, resets[1].Freed)
	require.Equal(t, "wrong answer", resets[1].Reason)
}

func caseLookup(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	lookup := func(key string) dedup.Status {
		c := call(key)
		status, err := f.d.Lookup(ctx, c.Scope, c.Tool, c.Key)
		require.NoError(t, err)
		return status
	}
	require.Equal(t, dedup.Status{}, lookup("k"))

	held := newGate()
	e := &tool{ref: "k", then: held.then}
	running := start(ctx, f.peer(t), call("k"), e.run)
	receive(t, ctx, held.entered)
	require.Equal(t, dedup.Status{State: dedup.StateInFlight}, lookup("k"))
	held.release()
	first := receive(t, ctx, running).require(t)

	done := lookup("k")
	fingerprint, err := dedup.FingerprintOf(call("k").Args)
	require.NoError(t, err)
	require.Equal(t, dedup.StateDone, done.State)
	require.JSONEq(t, `{"id":1,"title":"k"}`, string(done.Result))
	require.Equal(t, fingerprint, done.Fingerprint)
	require.True(t, done.CreatedAt.Equal(first.CreatedAt))
	require.False(t, done.Now.Before(done.CreatedAt))

	f.age(t, "k", "2 days")
	expired := lookup("k")
	require.Equal(t, dedup.StateExpired, expired.State)
	require.Empty(t, expired.Result)
	f.age(t, "k", "40 days")
	require.Equal(t, dedup.StateNotFound, lookup("k").State)

	_, err = dedup.Do(ctx, f.d, call("refused"), func(context.Context, pgx.Tx) (ticket, error) {
		return ticket{}, dedup.Final(declined{Balance: 3})
	})
	require.ErrorIs(t, err, dedup.ErrRefused)
	refused := lookup("refused")
	require.Equal(t, dedup.StateRefused, refused.State)
	require.Equal(t, "card declined", refused.Refusal.Message)
	require.Equal(t, json.RawMessage(`{"balance":3}`), refused.Refusal.Details)

	f.exec(t, `UPDATE tool_dedup SET outcome = 'broken', result = NULL WHERE key = 'refused'`)
	require.Equal(t, dedup.StateBroken, lookup("refused").State)

	require.Equal(t, 2, f.records(t), "looking up writes nothing")
}

// caseRival commits a twin while the effect runs, past the lock: only the
// primary key is left to decide.
func caseRival(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	var rivalErr error
	e := &tool{ref: "k", then: func(context.Context, pgx.Tx, int) error {
		rivalErr = f.rival(ctx, call("k"), "k", ticket{ID: 99})
		return nil
	}}

	result, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
	if !v.locks() { // the claim keeps the rival out
		requireState(t, rivalErr, "55P03")
		require.False(t, result.Replayed)
		return
	}
	require.NoError(t, rivalErr)
	require.True(t, result.Replayed)
	require.False(t, result.Recovered)
	require.Equal(t, 99, result.Value.ID)
	conflicts := events[dedup.ConflictData](f.events)
	require.Len(t, conflicts, 1)
	require.True(t, conflicts[0].Resolved)
	require.Contains(t, []string{"23505", "40001"}, conflicts[0].SQLState)
}

// caseOwnUnique has the loser's effect fail on the application's own index
// before the record is written.
func caseOwnUnique(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	f.exec(t, `CREATE TABLE tickets (ref text UNIQUE)`)
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		if err := f.rival(ctx, call("k"), "k", ticket{ID: 99}, `INSERT INTO tickets VALUES ('k')`); err != nil {
			return fmt.Errorf("rival: %w", err)
		}
		_, err := tx.Exec(ctx, `INSERT INTO tickets VALUES ('k')`)
		return err
	}}

	result, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	require.True(t, result.Replayed)
	require.Equal(t, 99, result.Value.ID)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	conflicts := events[dedup.ConflictData](f.events)
	require.Len(t, conflicts, 1)
	require.True(t, conflicts[0].Resolved)

	// Without a rival's record it is the call's own error.
	_, err = dedup.Do(ctx, f.d, call("other"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Exec(ctx, `INSERT INTO tickets VALUES ('k')`)
		return ticket{}, err
	})
	requireState(t, err, "23505")
	require.NotErrorIs(t, err, dedup.ErrConflict)
	require.Equal(t, 1, f.records(t))
}

// caseOwnLook has the loser's effect see the winner's row and object by itself.
func caseOwnLook(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	e := func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		if err := f.rival(ctx, call("k"), "k", ticket{ID: 99}); err != nil {
			return ticket{}, fmt.Errorf("rival: %w", err)
		}
		var taken bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM effects WHERE ref = 'k')`).Scan(&taken); err != nil {
			return ticket{}, err
		}
		if taken {
			return ticket{}, errPaper
		}
		_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ('k')`) // an older snapshot
		return ticket{}, err
	}

	result, err := dedup.Do(ctx, f.d, call("k"), e)
	require.NoError(t, err)
	require.True(t, result.Replayed)
	require.Equal(t, 99, result.Value.ID)
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseDeferred(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	f.exec(t, `CREATE TABLE slots (slot int CONSTRAINT slots_slot_key UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	f.exec(t, `INSERT INTO slots VALUES (1)`)
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		_, err := tx.Exec(ctx, `INSERT INTO slots VALUES (1)`)
		return err
	}}

	_, err := dedup.Do(ctx, f.d, call("k"), e.run)
	requireState(t, err, "23505")
	require.ErrorContains(t, err, "slots_slot_key")
	for _, other := range []error{dedup.ErrConflict, dedup.ErrOutcomeUnknown, dedup.ErrAttemptsExhausted} {
		require.NotErrorIs(t, err, other)
	}
	e.requireRuns(t, 1)
	require.Zero(t, f.effects(t, "k"))
	require.Zero(t, f.records(t))
}

func caseTransient(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	for _, code := range []string{"40001", "40P01", "55P03", "57P01", "53200"} {
		e := &tool{ref: code, then: func(ctx context.Context, tx pgx.Tx, run int) error {
			if run > 2 {
				return nil
			}
			_, err := tx.Exec(ctx, raise(code))
			return err
		}}
		result, err := dedup.Do(ctx, f.d, call(code), e.run)
		require.NoError(t, err)
		require.False(t, result.Replayed)
		require.Equal(t, 3, result.Attempts)
		e.requireRuns(t, 3)
		require.Equal(t, 1, f.effects(t, code))
	}
	require.Len(t, events[dedup.RetriedData](f.events), 10)
}

func caseTransientForEver(t *testing.T, v variant) {
	ctx, f := v.setup(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}})
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, run int) error {
		_, err := tx.Exec(ctx, raise("40001"))
		return err
	}}

	_, err := dedup.Do(ctx, f.d, call("k"), e.run)
	var gaveUp *dedup.AttemptsError
	require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
	require.ErrorAs(t, err, &gaveUp)
	require.Equal(t, 3, gaveUp.Attempts)
	requireState(t, err, "40001")
	e.requireRuns(t, 3)
	require.Zero(t, f.effects(t, "k"))
}

func caseMaxWaitNone(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	held := newGate()
	e := &tool{ref: "k", then: held.then}
	first := start(ctx, f.d, call("k"), e.run)
	receive(t, ctx, held.entered)

	impatient := call("k")
	impatient.MaxWait = -1
	for _, d := range []*dedup.Deduper{f.d, f.peer(t)} {
		result, err := dedup.Do(ctx, d, impatient, e.run)
		require.ErrorIs(t, err, dedup.ErrInFlight)
		require.True(t, dedup.IsRetryable(err))
		require.Zero(t, result.Waited)
	}
	require.Empty(t, events[dedup.WaitStartData](f.events))

	held.release()
	receive(t, ctx, first).require(t)
	result, err := dedup.Do(ctx, f.d, impatient, e.run)
	require.NoError(t, err)
	require.True(t, result.Replayed)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseMaxWaitBounded(t *testing.T, v variant) {
	const bound = 20 * time.Millisecond
	ctx, f := v.setup(t, &dedup.Options{MaxWait: bound})
	held := newGate()
	e := &tool{ref: "k", then: held.then}
	first := start(ctx, f.d, call("k"), e.run)
	receive(t, ctx, held.entered)

	for _, d := range []*dedup.Deduper{f.d, f.peer(t)} {
		result, err := dedup.Do(ctx, d, call("k"), e.run)
		require.ErrorIs(t, err, dedup.ErrInFlight)
		require.GreaterOrEqual(t, result.Waited, bound)
	}
	waits := events[dedup.WaitedData](f.events)
	require.Len(t, waits, 2)
	for _, w := range waits {
		require.ErrorIs(t, w.Err, dedup.ErrInFlight)
		require.GreaterOrEqual(t, w.Waited, bound)
	}

	held.release()
	receive(t, ctx, first).require(t)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseWaitCancelled(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	held := newGate()
	e := &tool{ref: "k", then: held.then}
	first := start(ctx, f.d, call("k"), e.run)
	receive(t, ctx, held.entered)

	impatience := errors.New("the user has gone")
	waiting, cancel := context.WithCancelCause(ctx)
	here := start(waiting, f.d, call("k"), e.run)
	there := start(waiting, f.peer(t), call("k"), e.run)
	require.NoError(t, f.events.untilWaiting(ctx, 1, 1))
	cancel(impatience)
	for _, twin := range []<-chan answered{here, there} {
		a := receive(t, ctx, twin)
		require.ErrorIs(t, a.err, context.Canceled)
		require.ErrorIs(t, a.err, impatience)
		require.NotErrorIs(t, a.err, dedup.ErrOutcomeUnknown)
	}

	held.release()
	receive(t, ctx, first).require(t)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
}

// followers starts a twin in the same process and one in another, and waits
// until both wait.
func (f *fixture) followers(t *testing.T, ctx context.Context, effect dedup.Effect[ticket]) []<-chan answered {
	t.Helper()
	twins := []<-chan answered{start(ctx, f.d, call("k"), effect), start(ctx, f.peer(t), call("k"), effect)}
	require.NoError(t, f.events.untilWaiting(ctx, 1, 1))
	return twins
}

func caseLeaderCancelled(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	held := newGate()
	leading, cancel := context.WithCancel(ctx)
	leader := start(leading, f.d, call("k"), (&tool{ref: "k", then: held.then}).run)
	receive(t, ctx, held.entered)

	e := &tool{ref: "k"}
	twins := f.followers(t, ctx, e.run)
	cancel()
	require.ErrorIs(t, receive(t, ctx, leader).err, context.Canceled)
	requireTwins(t, []dedup.Result[ticket]{receive(t, ctx, twins[0]).require(t), receive(t, ctx, twins[1]).require(t)})
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseLeaderPanics(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	held := newGate()
	leader := start(ctx, f.d, call("k"), (&tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
		_ = held.pass(ctx)
		panic("out of paper")
	}}).run)
	receive(t, ctx, held.entered)

	e := &tool{ref: "k"}
	twins := f.followers(t, ctx, e.run)
	held.release()
	require.Equal(t, "out of paper", receive(t, ctx, leader).panicked)
	requireTwins(t, []dedup.Result[ticket]{receive(t, ctx, twins[0]).require(t), receive(t, ctx, twins[1]).require(t)})
	require.Equal(t, 1, f.effects(t, "k"))
	f.eventually(t, `SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`)
}

func caseNested(t *testing.T, v variant) {
	ctx, f := v.setup(t, nil)
	inner := &tool{ref: "inner"}
	peer := f.peer(t)
	for name, d := range map[string]*dedup.Deduper{"SamePool": f.d, "OtherPool": peer} {
		e := &tool{ref: "outer", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
			_, err := dedup.Do(ctx, d, call("inner"), inner.run)
			return err
		}}
		_, err := dedup.Do(ctx, f.d, call(name), e.run)
		require.ErrorIs(t, err, dedup.ErrNested)
	}
	inner.requireRuns(t, 0)
	require.Zero(t, f.effects(t, "outer"))
	require.Zero(t, f.records(t))
}

// caseBornExpired has an effect that takes longer than its result is kept.
func caseBornExpired(t *testing.T, v variant) {
	ctx, f := v.setup(t, &dedup.Options{Retention: dedup.Retention{Result: 20 * time.Millisecond, Tombstone: time.Hour}})
	f.exec(t, `CREATE TABLE began (at timestamptz)`)
	result, err := dedup.Do(ctx, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		if _, err := tx.Exec(ctx, `INSERT INTO began VALUES (now())`); err != nil {
			return ticket{}, err
		}
		_, err := tx.Exec(ctx, `SELECT pg_sleep(0.04)`)
		return ticket{}, err
	})
	require.NoError(t, err)
	require.Equal(t, 20*time.Millisecond, result.ExpiresAt.Sub(result.CreatedAt).Round(10*time.Millisecond))
	require.True(t, scalar[bool](t, f.bundle, `SELECT created_at >= at + interval '40 ms' AND expires_at >= created_at + interval '20 ms'
		AND forget_at >= expires_at + interval '1 h' FROM tool_dedup, began`))
}
