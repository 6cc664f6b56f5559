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
)

// auditLine is a row of tool_dedup_audit.
type auditLine struct {
	Actor, Role, Action, Scope, Tool, Key, Outcome string
	CreatedAt                                      time.Time
	Reason                                         string
}

func (b *bundle) audit(t *testing.T) []auditLine {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT actor, role, action, scope, tool, key, outcome, created_at, reason FROM tool_dedup_audit ORDER BY at`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByPos[auditLine])
	require.NoError(t, err)
	return lines
}

func TestResetIsAudited(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
			t.Run(mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, f := p.setup(t, nil, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
				freed, err := f.d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "nothing there"})
				require.NoError(t, err)
				require.False(t, freed)
				require.Empty(t, f.audit(t), "nothing was done")

				first, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
				require.NoError(t, err)
				freed, err = f.d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{
					Reason: "wrong\x00 answer", Actor: "ada\xff", CreatedAt: first.CreatedAt,
				})
				require.NoError(t, err)
				require.True(t, freed)
				role := scalar[string](t, f.bundle, `SELECT session_user::text`)
				want := auditLine{"ada", role, "reset", "acme", "create_ticket", "k", "done", first.CreatedAt, "wrong answer"}
				lines := f.audit(t)
				require.Len(t, lines, 1)
				require.True(t, want.CreatedAt.Equal(lines[0].CreatedAt))
				want.CreatedAt = lines[0].CreatedAt
				require.Equal(t, want, lines[0])

				_, err = dedup.Do(ctx, f.d, call("k"), effect("k"))
				require.NoError(t, err)
				_, err = f.d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "again"})
				require.NoError(t, err)
				require.Equal(t, role, f.audit(t)[1].Actor, "the role, where nobody is named")
			})
		}
	})
}

// Reset does not delete a record that is newer than CreatedAt.
func TestResetOfAnotherRecord(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		first, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
		require.NoError(t, err)
		looked := dedup.ChangeOptions{Reason: "wrong answer", CreatedAt: first.CreatedAt.Add(-time.Microsecond)}
		freed, err := f.d.Reset(ctx, "acme", "create_ticket", "k", looked)
		var invalid *dedup.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "CreatedAt", invalid.Field)
		require.ErrorContains(t, err, "look it up again")
		require.False(t, freed)
		require.Equal(t, 1, f.records(t))
		require.Empty(t, f.audit(t))

		freed, err = f.d.Reset(ctx, "acme", "create_ticket", "other", looked)
		require.NoError(t, err, "there is none")
		require.False(t, freed)
	})
}

// Without the table an operator can act all the same.
func TestResetWithoutAudit(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.exec(t, `DROP TABLE tool_dedup_audit`)
	_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	freed, err := f.d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong answer", Actor: "ada"})
	require.NoError(t, err)
	require.True(t, freed)
	require.Zero(t, f.records(t))
	reset := events[dedup.ChangedData](f.events)[0]
	require.False(t, reset.Audited)
	require.Equal(t, "ada", reset.Actor)

	_, err = dedup.Do(ctx, f.d, call("broken"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Conn().Exec(ctx, "COMMIT")
		return ticket{}, err
	})
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.NotContains(t, err.Error(), "audit")

	// And without any table the error is about the records.
	f.exec(t, `DROP TABLE tool_dedup`)
	_, err = f.d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong answer"})
	require.ErrorIs(t, err, dedup.ErrSchema)
}

// A server that takes no statement on tables of both kinds, as Citus does not, refuses it as a
// whole.
func TestResetThatTheServerCannotAudit(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	f.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION 'not supported' USING ERRCODE = '0A000'; END $f$`)
	f.exec(t, `CREATE TRIGGER refuse BEFORE INSERT ON tool_dedup_audit FOR EACH ROW EXECUTE FUNCTION refuse()`)
	_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	freed, err := f.d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong answer"})
	require.NoError(t, err)
	require.True(t, freed)
	require.Empty(t, f.audit(t))
	require.False(t, events[dedup.ChangedData](f.events)[0].Audited)
}

// What a role may not write down it may not do.
func TestResetThatMayNotBeAudited(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	role := f.role(t)
	f.exec(t, `GRANT USAGE ON SCHEMA public TO `+role)
	f.exec(t, `GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup TO `+role)
	pool := f.db.Pool(t, func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SET ROLE `+role)
			return err
		}
	})
	d := newDeduper(t, pool, nil)
	_, err := dedup.Do(ctx, d, call("k"), func(context.Context, pgx.Tx) (ticket, error) { return ticket{}, nil })
	require.NoError(t, err)

	freed, err := d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong answer"})
	requireState(t, err, "42501")
	require.ErrorContains(t, err, "the role needs INSERT on tool_dedup_audit")
	require.False(t, freed)
	require.Equal(t, 1, f.records(t))

	commits := func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Conn().Exec(ctx, "COMMIT")
		return ticket{}, err
	}
	_, err = dedup.Do(ctx, d, call("broken"), commits)
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.ErrorContains(t, err, "the role needs INSERT on tool_dedup_audit")
	require.Equal(t, 2, f.records(t), "the record counts without it")

	f.exec(t, `GRANT INSERT ON tool_dedup_audit TO `+role)
	freed, err = d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong answer"})
	require.NoError(t, err)
	require.True(t, freed)
	_, err = dedup.Do(ctx, d, call("broken too"), commits)
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.NotContains(t, err.Error(), "audit")
	lines := f.audit(t)
	require.Equal(t, []string{"reset", "broken"}, []string{lines[0].Action, lines[1].Action})
}

// A broken record has a line however it came to be, in the caller's transaction too.
func TestBrokenIsAudited(t *testing.T) {
	t.Parallel()

	ends := map[string]string{"Commit": "COMMIT", "Rollback": "ROLLBACK"}
	bothOrders(t, func(t *testing.T, p profile) {
		for name, end := range ends {
			breaks := func(ctx context.Context, tx pgx.Tx) (ticket, error) {
				_, err := tx.Conn().Exec(ctx, end)
				return ticket{}, err
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				// The caller of DoTx holds the only connection.
				ctx, f := p.setup(t, nil, func(c *pgxpool.Config) { c.MaxConns = 1 })
				_, err := dedup.Do(ctx, f.d, call("k"), breaks)
				require.ErrorIs(t, err, dedup.ErrBroken)
				_, err = dedup.Do(ctx, f.d, call("k"), breaks)
				require.ErrorIs(t, err, dedup.ErrBroken, "a replay writes nothing")

				tx, err := f.pool.Begin(ctx)
				require.NoError(t, err)
				_, err = dedup.DoTx(ctx, f.d, tx, call("tx"), breaks)
				require.ErrorIs(t, err, dedup.ErrBroken)
				_ = tx.Rollback(ctx)

				lines := f.audit(t)
				require.Len(t, lines, 2)
				for i, key := range []string{"k", "tx"} {
					require.Equal(t, []string{"broken", key}, []string{lines[i].Action, lines[i].Key})
					require.Contains(t, []string{"broken", "claimed"}, lines[i].Outcome)
					require.NotEmpty(t, lines[i].Reason)
				}
			})
		}
	})
}

// An effect commits and leaves a session in which the library cannot write the broken record. The
// record is written by another connection, even if the pool may have one only.
func TestBrokenSession(t *testing.T) {
	t.Parallel()

	sessions := map[string]string{
		"Discarded":   "DISCARD ALL",
		"Deallocated": "DEALLOCATE ALL",
		"OtherRole":   "SET ROLE pg_monitor",
		"ReadOnly":    "SET default_transaction_read_only = on",
	}
	bothOrders(t, func(t *testing.T, p profile) {
		for name, leaves := range sessions {
			for _, panics := range []bool{false, true} {
				breaks := func(ctx context.Context, tx pgx.Tx) (ticket, error) {
					for _, sql := range []string{"INSERT INTO effects (ref) VALUES ('k')", "COMMIT", leaves} {
						_, err := tx.Conn().Exec(ctx, sql)
						require.NoError(t, err)
					}
					if panics {
						panic("after the COMMIT")
					}
					return ticket{}, nil
				}
				t.Run(fmt.Sprintf("%s/%t", name, panics), func(t *testing.T) {
					t.Parallel()
					ctx, f := p.setup(t, nil, func(c *pgxpool.Config) { c.MaxConns = 1 })
					func() {
						defer func() { require.Equal(t, panics, recover() != nil) }()
						_, err := dedup.Do(ctx, f.d, call("k"), breaks)
						require.ErrorIs(t, err, dedup.ErrBroken)
					}()
					_, err := dedup.Do(ctx, f.d, call("k"), breaks)
					require.ErrorIs(t, err, dedup.ErrBroken)
					require.Equal(t, 1, f.effects(t, "k"), "the identity is blocked")
					require.Equal(t, int32(1), f.pool.Stat().TotalConns())
					require.Zero(t, f.pool.Stat().AcquiredConns())
				})
			}
		}
	})
}

// Logical replication copies rows and no sequences. Copied audit rows do not conflict with new
// ones.
func TestAuditOfRowsMovedWithoutSequences(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	for range 2 {
		_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
		require.NoError(t, err)
		_, err = f.d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong answer"})
		require.NoError(t, err)
		f.exec(t, `SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S' AND relname <> 'tool_dedup_version_id_seq'`)
	}
	require.Len(t, f.audit(t), 2)
}

// A broken record whose effect happened is given its result. Its callers get that from then on.
func TestResolve(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		field := func(err error) string {
			var invalid *dedup.InvalidError
			require.ErrorAs(t, err, &invalid)
			return invalid.Field
		}
		why := dedup.ChangeOptions{Reason: "completed by hand", Actor: "ada"}
		resolved, err := f.d.Resolve(ctx, "acme", "create_ticket", "k", ticket{}, why)
		require.NoError(t, err)
		require.False(t, resolved, "there is none")

		first, err := dedup.Do(ctx, f.d, call("done"), effect("done"))
		require.NoError(t, err)
		_, err = f.d.Resolve(ctx, "acme", "create_ticket", "done", ticket{}, why)
		require.Equal(t, "Record", field(err))
		again, err := dedup.Do(ctx, f.d, call("done"), effect("done"))
		require.NoError(t, err)
		require.Equal(t, first.Value, again.Value)

		breaks := func(ctx context.Context, tx pgx.Tx) (ticket, error) {
			_, err := tx.Conn().Exec(ctx, "COMMIT")
			return ticket{}, err
		}
		_, err = dedup.Do(ctx, f.d, call("k"), breaks)
		require.ErrorIs(t, err, dedup.ErrBroken)
		seen, err := f.d.Lookup(ctx, "acme", "create_ticket", "k")
		require.NoError(t, err)
		require.Equal(t, dedup.StateBroken, seen.State)
		_, err = f.d.Resolve(ctx, "acme", "create_ticket", "k", ticket{}, dedup.ChangeOptions{})
		require.Equal(t, "Reason", field(err))
		_, err = f.d.Resolve(ctx, "acme", "create_ticket", "k", make(chan int), why)
		require.ErrorIs(t, err, dedup.ErrInvalid)
		why.CreatedAt = seen.CreatedAt.Add(-time.Microsecond)
		_, err = f.d.Resolve(ctx, "acme", "create_ticket", "k", ticket{}, why)
		require.Equal(t, "CreatedAt", field(err))

		why.CreatedAt = seen.CreatedAt
		resolved, err = f.d.Resolve(ctx, "acme", "create_ticket", "k", first.Value, why)
		require.NoError(t, err)
		require.True(t, resolved)
		got, err := dedup.Do(ctx, f.d, call("k"), breaks)
		require.NoError(t, err)
		require.True(t, got.Replayed)
		require.Equal(t, first.Value, got.Value)
		require.True(t, seen.CreatedAt.Equal(got.CreatedAt))
		line := f.audit(t)[1]
		require.Equal(t, []string{"happened", "ada", "completed by hand"}, []string{line.Action, line.Actor, line.Reason})
		require.Contains(t, "broken claimed", line.Outcome)
		require.True(t, events[dedup.ChangedData](f.events)[1].Resolved)
		_, err = f.d.Resolve(ctx, "acme", "create_ticket", "k", first.Value, why)
		require.Equal(t, "Record", field(err))
	})
}
