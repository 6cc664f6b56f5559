package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// leaves are the options of an Erase.
func leaves(actor string) dedup.ChangeOptions {
	return dedup.ChangeOptions{Reason: "the tenant leaves", Actor: actor}
}

// canary is a text that must not be found once it is erased.
const canary = "canary-4711"

// secretCall is a call whose argument has a name that is stored.
func secretCall(scope, tool, key, name string) dedup.Call {
	return dedup.Call{Scope: scope, Tool: tool, Key: key, Args: map[string]string{name: "x"}}
}

func says(text string, err error) dedup.Effect[string] {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, failed := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('erase')`)
		return text, errors.Join(failed, err)
	}
}

// Erased identities answer as tombstones, whatever the arguments. Others are untouched.
func TestErase(t *testing.T) {
	t.Parallel()

	run := func(t *testing.T, p profile) {
		t.Parallel()
		ctx, f := p.setup(t, nil)
		do := func(scope, tool, key string, effect dedup.Effect[string]) error {
			name := "kept"
			if scope+tool == "acmenote" {
				name = canary
			}
			_, err := dedup.Do(ctx, f.d, secretCall(scope, tool, key, name), effect)
			return err
		}
		require.NoError(t, do("acme", "note", "done", says(canary, nil)))
		require.ErrorIs(t, do("acme", "note", "refused", says("", dedup.Final(errors.New(canary)))), dedup.ErrRefused)
		require.ErrorIs(t, do("acme", "note", "broken", func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Conn().Exec(ctx, "COMMIT")
			return "", errors.Join(err, errors.New(canary))
		}), dedup.ErrBroken)
		require.NoError(t, do("acme", "note", "freed", says(canary, nil)))
		_, err := f.d.Reset(ctx, "acme", "note", "freed", dedup.ChangeOptions{Reason: canary})
		require.NoError(t, err)
		require.NoError(t, do("acme", "note", "expired", says(canary, nil)))
		f.age(t, "expired", "25 hours")
		_, err = f.d.Sweep(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, do("acme", "other", "done", says("kept", nil)))
		require.NoError(t, do("zeta", "note", "done", says("kept", nil)))
		require.NotEmpty(t, f.traces(t, canary))

		got, err := f.d.Erase(ctx, "acme", "note", leaves("ada"))
		require.NoError(t, err)
		want := dedup.EraseResult{Records: 4, Reasons: 2}
		require.Equal(t, want, got)
		got, err = f.d.Erase(ctx, "acme", "note", leaves("ada"))
		require.NoError(t, err)
		require.Zero(t, got, "what is erased is not erased again")
		require.Empty(t, f.traces(t, canary))

		ran := f.effects(t, "erase")
		for _, key := range []string{"done", "refused", "expired"} {
			for _, c := range []dedup.Call{secretCall("acme", "note", key, canary), {Scope: "acme", Tool: "note", Key: key, Args: 1}} {
				_, err := dedup.Do(ctx, f.d, c, says("again", nil))
				var expired *dedup.Error
				require.ErrorAs(t, err, &expired)
				require.ErrorIs(t, err, dedup.ErrExpired)
				require.False(t, expired.ExpiredAt.After(scalar[time.Time](t, f.bundle, `SELECT now()`)))
				_, err = f.inTx(t, ctx, c)
				require.ErrorIs(t, err, dedup.ErrExpired)
			}
			status, err := f.d.Lookup(ctx, "acme", "note", key)
			require.NoError(t, err)
			require.Equal(t, dedup.StateExpired, status.State)
		}
		require.ErrorIs(t, do("acme", "note", "broken", says("again", nil)), dedup.ErrBroken)
		_, err = f.d.Resolve(ctx, "acme", "note", "broken", "by hand", dedup.ChangeOptions{Reason: "too late"})
		requireInvalid(t, err, "Record")
		require.NoError(t, do("acme", "other", "done", says("again", nil)))
		require.NoError(t, do("zeta", "note", "done", says("again", nil)))
		require.Equal(t, ran, f.effects(t, "erase"))

		erased := map[string]string{}
		for _, line := range f.audit(t) {
			if line.Action != "erased" {
				require.Empty(t, line.Reason, "of %s", line.Action)
				continue
			}
			require.Equal(t, []string{"ada", "acme", "note", "the tenant leaves"}, []string{line.Actor, line.Scope, line.Tool, line.Reason})
			erased[line.Key] = line.Outcome
		}
		require.Len(t, erased, 4)
		require.Equal(t, []string{"done", "refused", "done"}, []string{erased["done"], erased["refused"], erased["expired"]})
		reported := events[dedup.ChangedData](f.events)[1]
		require.Equal(t, []any{"Erase", "acme", "note", "", "", want, true, "ada"},
			[]any{reported.Func, reported.Scope, reported.Tool, reported.Key, reported.KeyHash, reported.Erased, reported.Audited, reported.Actor})

		got, err = f.d.Erase(ctx, "acme", "", leaves("ada"))
		require.NoError(t, err)
		require.Equal(t, dedup.EraseResult{Records: 1}, got)
		require.ErrorIs(t, do("acme", "other", "done", says("again", nil)), dedup.ErrExpired)
		require.NoError(t, do("zeta", "note", "done", says("again", nil)))
		require.Equal(t, ran, f.effects(t, "erase"))

		// A forgotten identity is new, as after a sweep.
		f.age(t, "refused", "32 days")
		require.NoError(t, do("acme", "note", "refused", says("new", nil)))
	}
	for _, p := range []profile{
		{order: lockFirst, isolation: pgx.ReadCommitted}, {order: claimFirst, isolation: pgx.ReadCommitted},
		{isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol}, {isolation: pgx.ReadCommitted, engine: onPlayedCitus},
	} {
		t.Run(p.String(), func(t *testing.T) { run(t, p) })
	}
}

func (f *fixture) traces(t *testing.T, texts ...string) []string {
	t.Helper()
	return f.db.Traces(t, texts...)
}

// inTx makes a call with DoTx.
func (f *fixture) inTx(t *testing.T, ctx context.Context, c dedup.Call) (result dedup.Result[string], err error) {
	t.Helper()
	err = f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
		result, err = dedup.DoTx(ctx, f.d, tx, c, says("again", nil))
		return err
	})
	return result, err
}

func requireInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *dedup.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field)
}

// More rows than a batch has are erased in several transactions. A held row delays its batch.
func TestEraseInBatches(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	const n = 2500
	f.exec(t, `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
		SELECT 'acme', 'tool ' || i % 3, i::text, sha256(''), 'done', '"secret"', now(), now() + interval '1 hour', now() + interval '2 hours'
		  FROM generate_series(1, $1::int) i`, n)
	held, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = held.Exec(ctx, `SELECT FROM tool_dedup WHERE tool = 'tool 2' FOR UPDATE`)
	require.NoError(t, err)
	type outcome struct {
		dedup.EraseResult
		err error
	}
	erased := make(chan outcome, 1)
	d := f.peer(t)
	go func() {
		result, err := d.Erase(ctx, "acme", "", leaves("ada"))
		erased <- outcome{result, err}
	}()
	f.untilWaitingInside(t, 1)
	require.Positive(t, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup WHERE result IS NULL`), "earlier batches are committed")
	require.NoError(t, held.Rollback(ctx))
	got := receive(t, ctx, erased)
	require.NoError(t, got.err)
	require.Equal(t, dedup.EraseResult{Records: n}, got.EraseResult)
	require.Equal(t, n, scalar[int](t, f.bundle, `SELECT count(DISTINCT key) FROM tool_dedup_audit WHERE action = 'erased'`))
	require.Zero(t, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup WHERE result IS NOT NULL OR expires_at > now()`))
}

// A call that is in flight is not touched. What it records then is erased by the next Erase.
func TestEraseBesideACall(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		e, land := f.inFlight(t, ctx, f.d, call("k"))
		for _, want := range []int64{0, 1} {
			got, err := f.d.Erase(ctx, "acme", "create_ticket", leaves(""))
			require.NoError(t, err)
			require.Equal(t, dedup.EraseResult{Records: want}, got)
			if want == 0 {
				land()
				_, err = dedup.Do(ctx, f.d, call("k"), e.run)
				require.NoError(t, err)
			}
		}
		_, err := dedup.Do(ctx, f.d, call("k"), e.run)
		require.ErrorIs(t, err, dedup.ErrExpired)
		e.requireRuns(t, 1)
		role := scalar[string](t, f.bundle, `SELECT session_user::text`)
		require.Equal(t, role, f.audit(t)[0].Actor)
	})
}

// A transient fault repeats the batch. The audit has one line of each record.
func TestEraseIsRetried(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	f.exec(t, `CREATE FUNCTION raises() RETURNS trigger LANGUAGE plpgsql AS
		$f$ BEGIN IF nextval('runs') < 3 THEN PERFORM fail('40P01'); END IF; RETURN NEW; END $f$`)
	f.exec(t, `CREATE TRIGGER raises BEFORE INSERT ON tool_dedup_audit FOR EACH ROW EXECUTE FUNCTION raises()`)
	got, err := f.d.Erase(ctx, "acme", "", leaves("ada"))
	require.NoError(t, err)
	require.Equal(t, dedup.EraseResult{Records: 1}, got)
	require.Len(t, f.audit(t), 1)
	require.Equal(t, 3, f.runs(t))
}

// TestEraseCountsALostCommit: a batch whose COMMIT got no reply is counted once, whether it was
// committed or not.
func TestEraseCountsALostCommit(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	const n, commits = 1500, 6 // the audit, the records in two batches, the effects; each pass ends with an empty batch
	for _, c := range []struct {
		kind  faultproxy.Kind
		times int
	}{{faultproxy.ReplyReset, 1}, {faultproxy.ReplyReset, 2}, {faultproxy.Dropped, 1}, {faultproxy.Dropped, 2}} {
		for skip := range commits {
			scope := fmt.Sprint(c.kind, c.times, skip)
			f.exec(t, `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
				SELECT $1::text, 'note', i::text, sha256(''), 'done', '"secret"', now(), now() + interval '1 hour', now() + interval '2 hours'
				  FROM generate_series(1, $2::int) i`, scope, n)
			f.exec(t, `INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
				SELECT now(), 'ada', 'ada', 'reset', $1::text, 'note', i::text, 'done', now(), 'secret' FROM generate_series(1, 3) i`, scope)
			fault := proxy.Arm(faultproxy.Fault{Kind: c.kind, Where: faultproxy.AtCommit, Skip: skip, Times: c.times})
			got, err := f.d.Erase(ctx, scope, "", leaves("ada"))
			require.NoError(t, err, scope)
			require.NoError(t, fault.WaitSettled(ctx))
			require.Positive(t, fault.Count(), scope)
			fault.Disarm()
			require.Equal(t, dedup.EraseResult{Records: n, Reasons: 3}, got, scope)
			require.Zero(t, scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup WHERE scope = $1 AND result IS NOT NULL`, scope))
			got, err = f.d.Erase(ctx, scope, "", leaves("ada"))
			require.NoError(t, err, scope)
			require.Zero(t, got, scope)
		}
	}
}

// TestEraseOfReasons: an Erase that finds reasons only counts them.
func TestEraseOfReasons(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	_, err = f.d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: canary})
	require.NoError(t, err)
	got, err := f.d.Erase(ctx, "acme", "", leaves("ada"))
	require.NoError(t, err)
	require.Equal(t, dedup.EraseResult{Reasons: 1}, got)
}

// Erase needs an audit that it may write, or none. Without its tables the error is about the
// schema.
func TestEraseWithoutAudit(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	record := func(key string) {
		t.Helper()
		_, err := dedup.Do(ctx, f.d, call(key), effect(key))
		require.NoError(t, err)
	}
	kept := func() int {
		return scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup WHERE result IS NOT NULL`)
	}
	record("freed")
	_, err := f.d.Reset(ctx, "acme", "create_ticket", "freed", dedup.ChangeOptions{Reason: canary})
	require.NoError(t, err)
	record("k")
	role := f.role(t)
	f.exec(t, `GRANT USAGE ON SCHEMA public TO `+role)
	f.exec(t, `GRANT SELECT, UPDATE ON tool_dedup, tool_effect TO `+role)
	f.exec(t, `GRANT SELECT, INSERT ON tool_dedup_audit TO `+role)
	d := newDeduper(t, f.db.Pool(t, func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SET ROLE `+role)
			return err
		}
	}), nil)
	got, err := d.Erase(ctx, "acme", "", leaves("ada"))
	requireState(t, err, "42501")
	require.ErrorContains(t, err, "UPDATE (reason) on tool_dedup_audit")
	require.Zero(t, got)
	require.Equal(t, 1, kept(), "nothing is erased before the audit")
	f.exec(t, `GRANT UPDATE (reason) ON tool_dedup_audit TO `+role)
	got, err = d.Erase(ctx, "acme", "", leaves("ada"))
	require.NoError(t, err)
	require.Equal(t, dedup.EraseResult{Records: 1, Reasons: 1}, got)

	record("k2")
	f.exec(t, `DROP TABLE tool_dedup_audit, tool_effect`)
	got, err = f.d.Erase(ctx, "acme", "", leaves("ada"))
	require.NoError(t, err)
	require.Equal(t, dedup.EraseResult{Records: 1, Unaudited: 1}, got)
	require.Zero(t, kept())
	reports := events[dedup.ChangedData](f.events)
	require.False(t, reports[len(reports)-1].Audited)

	f.exec(t, `DROP TABLE tool_dedup`)
	_, err = f.d.Erase(ctx, "acme", "", leaves("ada"))
	require.ErrorIs(t, err, dedup.ErrSchema)
}

func TestEraseRefused(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	for _, c := range []struct {
		scope, tool, field string
		opts               dedup.ChangeOptions
	}{
		{"", "", "Scope", leaves("ada")},
		{"acme", "a\nb", "Tool", leaves("ada")},
		{"acme", "", "Reason", dedup.ChangeOptions{Actor: "ada"}},
		{"acme", "", "CreatedAt", dedup.ChangeOptions{Reason: "r", CreatedAt: time.Now()}},
	} {
		_, err := f.d.Erase(ctx, c.scope, c.tool, c.opts)
		requireInvalid(t, err, c.field)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = f.d.Erase(ended, "acme", "", leaves("ada"))
	require.ErrorIs(t, err, context.Canceled)
	result, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	require.True(t, result.Replayed)
	require.Empty(t, events[dedup.ChangedData](f.events), "nothing was done")
}
