package contract_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// caseRival commits a twin while the effect runs, past the lock: only the
// primary key is left to decide.
func caseRival(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	var rivalErr error
	e := &tool{ref: "k", then: func(context.Context, pgx.Tx, int) error {
		rivalErr = f.rival(ctx, call("k"), "k", ticket{ID: 99})
		return nil
	}}

	result, err := f.do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
	if !p.locks() { // the claim keeps the rival out
		requireState(t, rivalErr, "55P03")
		require.False(t, result.Replayed)
		return
	}
	require.NoError(t, rivalErr)
	require.True(t, result.Replayed)
	require.False(t, result.Recovered)
	require.Equal(t, 99, result.Value.ID)
	require.Len(t, f.events.ended(dedup.OutcomeReplayed), 1)
}

// caseOwnUnique has the loser's effect fail on the application's own index
// before the record is written.
func caseOwnUnique(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	f.exec(t, `CREATE TABLE tickets (ref text UNIQUE)`)
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		if err := f.rival(ctx, call("k"), "k", ticket{ID: 99}, `INSERT INTO tickets VALUES ('k')`); err != nil {
			return fmt.Errorf("rival: %w", err)
		}
		_, err := tx.Exec(ctx, `INSERT INTO tickets VALUES ('k')`)
		return err
	}}

	result, err := f.do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	require.True(t, result.Replayed)
	require.Equal(t, 99, result.Value.ID)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Len(t, f.events.ended(dedup.OutcomeReplayed), 1)

	// Without a rival's record it is the call's own error.
	_, err = f.do(ctx, f.d, call("other"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Exec(ctx, `INSERT INTO tickets VALUES ('k')`)
		return ticket{}, err
	})
	requireState(t, err, "23505")
	require.NotErrorIs(t, err, dedup.ErrSchema)
	require.Equal(t, 1, f.records(t))
	require.Empty(t, events[dedup.WaitStartData](f.events), "no twin is waited for")
}

// caseOwnLook: the loser's effect sees the winner's row and object.
func caseOwnLook(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
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

	result, err := f.do(ctx, f.d, call("k"), e)
	require.NoError(t, err)
	require.True(t, result.Replayed)
	require.Equal(t, 99, result.Value.ID)
	require.Equal(t, 1, f.effects(t, "k"))
}

func caseDeferred(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	f.exec(t, `CREATE TABLE slots (slot int CONSTRAINT slots_slot_key UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	f.exec(t, `INSERT INTO slots VALUES (1)`)
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		_, err := tx.Exec(ctx, `INSERT INTO slots VALUES (1)`)
		return err
	}}

	_, err := f.do(ctx, f.d, call("k"), e.run)
	requireState(t, err, "23505")
	require.ErrorContains(t, err, "slots_slot_key")
	for _, other := range []error{dedup.ErrSchema, dedup.ErrOutcomeUnknown, dedup.ErrAttemptsExhausted} {
		require.NotErrorIs(t, err, other)
	}
	e.requireRuns(t, 1)
	require.Zero(t, f.effects(t, "k"))
	require.Zero(t, f.records(t))
}

func caseTransient(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	for _, code := range []string{"40001", "40P01", "55P03", "57P01", "53200"} {
		e := &tool{ref: code, then: func(ctx context.Context, tx pgx.Tx, run int) error {
			if run > 2 {
				return nil
			}
			_, err := tx.Exec(ctx, raise(code))
			return err
		}}
		result, err := f.do(ctx, f.d, call(code), e.run)
		require.NoError(t, err)
		require.False(t, result.Replayed)
		require.Equal(t, 3, result.Attempts)
		e.requireRuns(t, 3)
		require.Equal(t, 1, f.effects(t, code))
	}
	require.Len(t, events[dedup.RetriedData](f.events), 10)
}

func caseTransientForEver(t *testing.T, p profile) {
	ctx, f := p.setup(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}})
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, run int) error {
		_, err := tx.Exec(ctx, raise("40001"))
		return err
	}}

	_, err := f.do(ctx, f.d, call("k"), e.run)
	var gaveUp *dedup.Error
	require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
	require.ErrorAs(t, err, &gaveUp)
	require.Equal(t, 3, gaveUp.Attempts)
	requireState(t, err, "40001")
	e.requireRuns(t, 3)
	require.Zero(t, f.effects(t, "k"))
}

// mostRuns bounds the runs of an effect whose record cannot be written.
const mostRuns = 3

func contractConstraints() []contractCase {
	return []contractCase{
		{name: "TriggerRaises", run: caseTriggerRaises},
		{name: "TriggerSwallowsLater", run: caseTriggerSwallowsLater},
		{name: "RuleSwallows", run: caseRuleSwallows},
		{name: "SecondUniqueIndex", run: caseSecondUnique, notOnCitus: "every unique index of a distributed table has its distribution column"},
		{name: "DeferrablePrimaryKey", run: caseDeferrableKey, notOnCitus: "the primary key of a distributed table stays as it is"},
	}
}

// requireUnwritten requires that a call left nothing behind and ran its effect a
// few times at the most.
func (f *fixture) requireUnwritten(t *testing.T, e *tool, records int) {
	t.Helper()
	require.LessOrEqual(t, int(e.runs.Load()), mostRuns)
	require.Zero(t, f.effects(t, e.ref))
	require.Equal(t, records, f.records(t))
}

// warm makes a first call. The Deduper checks the table at its first call and trusts it from then
// on. There is one record.
func (f *fixture) warm(t *testing.T) {
	t.Helper()
	_, err := f.do(t.Context(), f.d, call("warm"), (&tool{ref: "warm"}).run)
	require.NoError(t, err)
}

func (f *fixture) trigger(t *testing.T, when, body string) {
	t.Helper()
	f.exec(t, `CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN `+body+` END'`)
	if f.profile.engine == onCitus {
		f.exec(t, `ALTER DATABASE `+f.db.Name+` SET citus.enable_unsafe_triggers = on`)
		f.pool.Reset()
	}
	f.exec(t, `CREATE TRIGGER meddle `+when+` INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION meddle()`)
}

func caseTriggerRaises(t *testing.T, p profile) {
	for _, when := range []string{"BEFORE", "AFTER"} {
		ctx, f := p.setup(t, nil)
		f.warm(t)
		f.trigger(t, when, `RAISE unique_violation;`)
		e := &tool{ref: "k"}

		_, err := f.do(ctx, f.d, call("k"), e.run)
		var conflict *dedup.Error
		require.ErrorIs(t, err, dedup.ErrSchema, when)
		require.ErrorAs(t, err, &conflict)
		requireState(t, err, "23505")
		f.requireUnwritten(t, e, 1)
	}
}

// caseTriggerSwallowsLater has the trigger come when the table is trusted. A
// retry must not repeat what of the effect is committed.
func caseTriggerSwallowsLater(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	f.warm(t)
	f.trigger(t, "BEFORE", `RETURN NULL;`)
	f.requireUnrecorded(t, ctx)
	if p.engine != onCitus { // on Citus the shards have the triggers
		next := &tool{ref: "next"}
		_, err := f.do(ctx, f.d, call("next"), next.run)
		require.ErrorIs(t, err, dedup.ErrSchema, "the table is trusted no longer")
		next.requireRuns(t, 0)
	}
}

func caseRuleSwallows(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	f.warm(t)
	f.exec(t, `CREATE RULE meddle AS ON INSERT TO tool_dedup DO INSTEAD NOTHING`)
	f.requireUnrecorded(t, ctx)
}

// requireUnrecorded calls again and again where no record can be written: each
// answer is final, and at most the first has an effect.
func (f *fixture) requireUnrecorded(t *testing.T, ctx context.Context) {
	t.Helper()
	e := &tool{ref: "k"}

	for range 3 {
		_, err := f.do(ctx, f.d, call("k"), e.run)
		require.Error(t, err)
		require.False(t, dedup.IsRetryable(err))
	}
	require.LessOrEqual(t, f.effects(t, "k"), 1)
	require.Equal(t, 1, f.records(t))
}

func caseSecondUnique(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	f.exec(t, `CREATE UNIQUE INDEX one_per_tool ON tool_dedup (tool)`)
	_, err := f.do(ctx, f.d, call("first"), (&tool{ref: "first"}).run)
	require.NoError(t, err)

	e := &tool{ref: "k"}
	_, err = f.do(ctx, f.d, call("k"), e.run)
	require.ErrorIs(t, err, dedup.ErrSchema)
	if p.locks() { // a claim is skipped silently
		require.ErrorContains(t, err, `constraint "one_per_tool"`)
	}
	f.requireUnwritten(t, e, 1)
	require.Len(t, f.events.ended(dedup.OutcomeSchema), 1)
}

// caseDeferrableKey moves the decision of a lost race from the INSERT to the
// COMMIT. A claim needs a key that decides at once, and says so.
func caseDeferrableKey(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	f.warm(t)
	f.exec(t, `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey,
		ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key) DEFERRABLE INITIALLY DEFERRED`)
	e := &tool{ref: "k", then: func(context.Context, pgx.Tx, int) error {
		return f.rival(ctx, call("k"), "k", ticket{ID: 99})
	}}

	result, err := f.do(ctx, f.d, call("k"), e.run)
	if !p.locks() {
		requireState(t, err, "55000")
		e.requireRuns(t, 0)
		return
	}
	require.NoError(t, err)
	require.True(t, result.Replayed)
	require.Equal(t, 99, result.Value.ID)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 2, f.records(t))
}

var plain = profile{order: lockFirst, isolation: pgx.ReadCommitted}

// TestWithoutPrimaryKey is the control of the tests that let a rival past the
// lock: with nothing to decide the race the effect is there twice.
func TestWithoutPrimaryKey(t *testing.T) {
	t.Parallel()

	t.Run("LockFirstDoubles", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		f.warm(t)
		f.exec(t, `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey`)
		e := &tool{ref: "k", then: func(context.Context, pgx.Tx, int) error {
			return f.rival(ctx, call("k"), "k", ticket{ID: 99})
		}}
		result, err := f.do(ctx, f.d, call("k"), e.run)
		require.NoError(t, err)
		require.False(t, result.Replayed)
		require.Equal(t, 2, f.effects(t, "k"))
	})

	t.Run("ClaimFirstFails", func(t *testing.T) {
		t.Parallel()
		ctx, f := profile{order: claimFirst, isolation: pgx.ReadCommitted}.setup(t, nil)
		f.warm(t)
		f.exec(t, `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey`)
		e := &tool{ref: "k"}
		_, err := f.do(ctx, f.d, call("k"), e.run)
		requireState(t, err, "42P10")
		require.Zero(t, f.effects(t, "k"))
	})
}

// TestHiddenWinner has a record that row security hides: the insert conflicts
// with what no look-up finds.
func TestHiddenWinner(t *testing.T) {
	t.Parallel()

	for _, order := range []orderKind{lockFirst, claimFirst} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			p := profile{order: order, isolation: pgx.ReadCommitted}
			// A predefined role: roles are shared by all databases.
			asRole := func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["role"] = "pg_monitor" }
			ctx, b := setup(t, nil)
			b.exec(t, `GRANT ALL ON tool_dedup, effects TO pg_monitor`)
			b.exec(t, `ALTER TABLE tool_dedup ENABLE ROW LEVEL SECURITY`)
			b.exec(t, `CREATE POLICY recent ON tool_dedup USING (created_at > now() - interval '1 hour') WITH CHECK (true)`)
			tracer := newRecorder()
			f := &fixture{bundle: b, profile: p, events: tracer}
			d := newDeduper(t, b.db.Pool(t, asRole, order.configure), &dedup.Options{Tracer: tracer})

			e := &tool{ref: "k"}
			_, err := f.do(ctx, d, call("k"), e.run)
			require.NoError(t, err)
			replay, err := f.do(ctx, d, call("k"), e.run)
			require.NoError(t, err)
			require.True(t, replay.Replayed)

			b.exec(t, `UPDATE tool_dedup SET created_at = now() - interval '2 hours'`)
			_, err = f.do(ctx, d, call("k"), e.run)
			require.ErrorIs(t, err, dedup.ErrSchema)
			require.LessOrEqual(t, int(e.runs.Load()), 1+mostRuns)
			require.Equal(t, 1, f.effects(t, "k"))
			require.Len(t, tracer.ended(dedup.OutcomeSchema), 1)
		})
	}
}

// TestWinnerSwept lets the winner's record be forgotten between the conflict and
// the look-up.
func TestWinnerSwept(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	e := &tool{ref: "k", then: func(_ context.Context, _ pgx.Tx, run int) error {
		if run > 1 {
			return nil
		}
		return f.rival(ctx, call("k"), "rival", ticket{ID: 99})
	}}
	held := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: isPeek})

	pending := f.start(ctx, f.d, call("k"), e.run)
	require.NoError(t, held.Wait(ctx))
	f.exec(t, `DELETE FROM tool_dedup`)
	held.Release()

	result := receive(t, ctx, pending).require(t)
	require.False(t, result.Replayed)
	require.Equal(t, 2, result.Value.ID)
	require.Equal(t, 2, result.Attempts)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 1, f.effects(t, "rival"))
	require.Equal(t, 1, f.records(t))
}

// isPeek selects the looks of LockFirst that are not attempts.
func isPeek(u faultproxy.Unit) bool {
	return len(u.Executes) == 4 && faultproxy.AtSQL("pg_try_advisory_xact_lock_shared(")(u)
}

// proxied is setup with a fault proxy between the fixture's pool and the server.
// What the test does through f.exec goes through it too.
func proxied(t *testing.T, p profile, opts *dedup.Options, conf ...func(*pgxpool.Config)) (context.Context, *fixture, *faultproxy.Proxy) {
	t.Helper()
	var proxy *faultproxy.Proxy
	bouncer := p.bouncer
	p.bouncer = nil // the proxy connects to it
	ctx, f := p.setup(t, opts, append([]func(*pgxpool.Config){func(config *pgxpool.Config) {
		if proxy == nil {
			upstream, err := config.ConnString(), error(nil)
			if bouncer != nil {
				upstream, err = bouncer.URL(upstream)
				require.NoError(t, err)
			}
			proxy, err = faultproxy.New(upstream)
			require.NoError(t, err)
			t.Cleanup(proxy.Close)
		}
		parsed, err := pgxpool.ParseConfig(proxy.URL())
		require.NoError(t, err)
		config.ConnConfig = parsed.ConnConfig
		trackCleanups(t, config)
	}}, conf...)...)
	return ctx, f, proxy
}

// trackCleanups makes the test wait for what pgx does behind connections that
// were cut: it sends a cancel request from a goroutine.
func trackCleanups(t *testing.T, config *pgxpool.Config) {
	t.Helper()
	opened := make(chan *pgx.Conn, 1024)
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		select {
		case opened <- conn:
		default:
		}
		return nil
	}
	t.Cleanup(func() {
		for {
			select {
			case conn := <-opened:
				if !conn.IsClosed() {
					continue
				}
				select {
				case <-conn.PgConn().CleanupDone():
				case <-time.After(limit):
					t.Error("a connection was not cleaned up")
				}
			default:
				return
			}
		}
	})
}

// Few attempts do not make of a table that always conflicts one that is busy.
func TestConflictsWithFewAttempts(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		for most := 1; most <= 3; most++ {
			ctx, f := p.setup(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: most}})
			f.exec(t, `CREATE UNIQUE INDEX foreign_one ON tool_dedup (tool)`)
			_, err := dedup.Do(ctx, f.d, call("a"), effect("a"))
			require.NoError(t, err)
			_, err = dedup.Do(ctx, f.d, call("b"), effect("b"))
			require.ErrorIs(t, err, dedup.ErrSchema, "MaxAttempts %d", most)
			require.False(t, dedup.IsRetryable(err))
		}
	})
}
