package contract_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/migrations"
)

// standbyPool starts a server with the tables and one record, "k", and a standby that has it.
// What is played is SQL that makes it say that it is another engine.
func standbyPool(t *testing.T, played string) *pgxpool.Pool {
	t.Helper()
	ctx := t.Context()
	pool := func(s *pgserver.Server) *pgxpool.Pool {
		p, err := pgxpool.New(ctx, s.URL)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		return p
	}
	stopped := func(s *pgserver.Server) {
		t.Cleanup(func() { require.NoError(t, s.Stop(context.WithoutCancel(ctx))) })
	}
	server, err := pgserver.Start(ctx, &pgserver.Options{Private: true})
	require.NoError(t, err)
	stopped(server)
	primary := pool(server)
	schema, err := migrations.SQL()
	require.NoError(t, err)
	_, err = primary.Exec(ctx, schema+`; CREATE TABLE effects (ref text NOT NULL)`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	_, err = primary.Exec(ctx, played, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	_, err = dedup.Do(ctx, newDeduper(t, primary, nil), call("k"), effect("k"))
	require.NoError(t, err)

	follower, err := server.StartStandby(ctx, "second", nil)
	if errors.Is(err, pgserver.ErrNoBaseBackup) {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	require.NoError(t, err)
	stopped(follower)
	standby := pool(follower)
	var records int
	require.NoError(t, standby.QueryRow(ctx, `SELECT count(*) FROM tool_dedup`).Scan(&records))
	require.Equal(t, 1, records)
	return standby
}

// TestStandby: a connection to a standby or a demoted server gives no answer from its records,
// which may be missing or outdated.
func TestStandby(t *testing.T) {
	t.Parallel()
	refusesAll(t, standbyPool(t, ``))
}

// TestPlayedCitusStandby is a node of Citus that is a standby: its metadata may be out of date.
func TestPlayedCitusStandby(t *testing.T) {
	t.Parallel()
	refusesAll(t, standbyPool(t, playCitus))
}

func refusesAll(t *testing.T, standby *pgxpool.Pool) {
	t.Helper()
	ctx := t.Context()
	insert := dedup.SQL(`INSERT INTO effects (ref) VALUES ('ran') RETURNING 1 AS id, ref AS title`)

	bothOrders(t, func(t *testing.T, p profile) {
		d := newDeduper(t, standby, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond}})
		tools, err := external.New(d, nil)
		require.NoError(t, err)
		handle, err := external.Add(tools, external.Tool[ticket, ticket]{
			Name:    "pay",
			Perform: func(context.Context, external.Attempt, ticket) (ticket, error) { panic("it was performed") },
		})
		require.NoError(t, err)
		e := &tool{ref: "ran"}
		for _, key := range []string{"k", "other"} {
			looking := call(key)
			looking.LookFirst = true
			batch := func(calls ...dedup.Call) error {
				var all []dedup.StatementCall
				for _, c := range calls {
					all = append(all, dedup.StatementCall{Call: c, Statement: insert})
				}
				for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(all), nil) {
					if err == nil || out.Err == nil {
						err = out.Err
					}
					require.Error(t, out.Err)
				}
				return err
			}
			for name, do := range map[string]func() error{
				"Do":        func() error { _, err := dedup.Do(ctx, d, call(key), e.run); return err },
				"LookFirst": func() error { _, err := dedup.Do(ctx, d, looking, e.run); return err },
				"DoTx": func() error {
					tx, err := standby.Begin(ctx)
					require.NoError(t, err)
					defer func() { require.NoError(t, tx.Rollback(ctx)) }()
					_, err = dedup.DoTx(ctx, d, tx, call(key), e.run)
					return err
				},
				"DoStatement":    func() error { _, err := dedup.DoStatement[ticket](ctx, d, call(key), insert); return err },
				"DoBatch":        func() error { return batch(call(key), call("third")) },
				"DoBatchLooking": func() error { return batch(looking, call("third")) },
				"Lookup":         func() error { _, err := d.Lookup(ctx, "acme", "create_ticket", key); return err },
				"Reset": func() error {
					_, err := d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong"})
					return err
				},
				"ExternalDo":     func() error { _, err := handle.Do(ctx, dedup.Call{Scope: "acme", Key: key}, ticket{}); return err },
				"ExternalStatus": func() error { _, err := tools.Status(ctx, "acme", "pay", key); return err },
			} {
				err := do()
				requireState(t, err, "25006")
				require.NotErrorIs(t, err, dedup.ErrInvalid, name)
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown, name)
			}
		}
		e.requireRuns(t, 0)
	})
}

// TestStandbyAway: a COMMIT that waits for a synchronous standby stays unknown. No call shows it,
// and none answers with it: a failover to the standby would lose that answer.
func TestStandbyAway(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server, err := pgserver.Start(ctx, &pgserver.Options{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(ctx))) })
	pool := func() *pgxpool.Pool {
		p, err := pgxpool.New(ctx, server.URL)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		return p
	}
	control := pool()
	schema, err := migrations.SQL()
	require.NoError(t, err)
	_, err = control.Exec(ctx, schema+`; CREATE TABLE effects (ref text NOT NULL)`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	_, err = dedup.Do(ctx, newDeduper(t, control, nil), call("old"), effect("old"))
	require.NoError(t, err)
	setStandby := func(name string) {
		t.Helper()
		for _, sql := range []string{`SET synchronous_commit = local`, `ALTER SYSTEM SET synchronous_standby_names = '` + name + `'`, `SELECT pg_reload_conf()`} {
			_, err := control.Exec(ctx, sql)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool {
			var is string
			return control.QueryRow(ctx, `SHOW synchronous_standby_names`).Scan(&is) == nil && is == name
		}, 10*time.Minute, time.Millisecond)
	}
	setStandby("away")
	// Those that are begun end together, by CommitTimeout and MaxWait.
	d := newDeduper(t, pool(), &dedup.Options{
		CommitTimeout: 300 * time.Millisecond, MaxWait: -1,
		Retry: dedup.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond, MaxDelay: time.Millisecond},
	})
	tools, err := external.New(d, nil)
	require.NoError(t, err)
	handle, err := external.Add(tools, external.Tool[ticket, ticket]{
		Name:    "pay",
		Perform: func(context.Context, external.Attempt, ticket) (ticket, error) { panic("it was performed") },
	})
	require.NoError(t, err)
	insert := func(ref string) dedup.Statement {
		return dedup.SQL(`INSERT INTO effects (ref) VALUES ($1) RETURNING 1 AS id, ref AS title`, ref)
	}
	ways := map[string]func() error{
		"Do": func() error { _, err := dedup.Do(ctx, d, call("Do"), effect("Do")); return err },
		"DoStatement": func() error {
			_, err := dedup.DoStatement[ticket](ctx, d, call("DoStatement"), insert("DoStatement"))
			return err
		},
		"DoBatch": func() (err error) {
			both := []dedup.StatementCall{{Call: call("DoBatch"), Statement: insert("DoBatch")}, {Call: call("other"), Statement: insert("other")}}
			for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(both), nil) {
				if out.Index == 0 || out.Err == nil {
					err = out.Err
				}
			}
			return err
		},
		"BeginFunc": func() error {
			return d.BeginFunc(ctx, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, d, tx, call("BeginFunc"), effect("BeginFunc"))
				return err
			})
		},
	}
	for name, way := range ways {
		err := way()
		require.ErrorIs(t, err, dedup.ErrOutcomeUnknown, name)
		require.ErrorIs(t, way(), dedup.ErrInFlight, name)
	}
	limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = handle.Do(limited, dedup.Call{Scope: "acme", Key: "k"}, ticket{})
	require.Error(t, err)
	_, err = d.Reset(ctx, "acme", "create_ticket", "old", dedup.ChangeOptions{Reason: "wrong"})
	require.Error(t, err)

	var shown, claims int
	require.NoError(t, control.QueryRow(ctx, `SELECT count(*) FROM tool_dedup WHERE key <> 'old'`).Scan(&shown))
	require.Zero(t, shown, "what no standby has is not shown")
	require.NoError(t, control.QueryRow(ctx, `SELECT count(*) FROM tool_effect`).Scan(&claims))
	require.Zero(t, claims)
	require.NoError(t, control.QueryRow(ctx, `SELECT count(*) FROM tool_dedup WHERE key = 'old'`).Scan(&shown))
	require.Equal(t, 1, shown)

	setStandby("") // it is back
	for name, way := range ways {
		require.Eventually(t, func() bool { return !errors.Is(way(), dedup.ErrInFlight) }, 10*time.Minute, time.Millisecond, name)
		require.NoError(t, way(), name)
		var effects int
		require.NoError(t, control.QueryRow(ctx, `SELECT count(*) FROM effects WHERE ref = $1`, name).Scan(&effects))
		require.Equal(t, 1, effects, name)
	}
}
