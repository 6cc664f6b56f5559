package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// ended are effects that have committed a row and leave the connection in different states.
var ended = map[string]func(ctx context.Context, tx pgx.Tx) error{
	"Closed": func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().Close(ctx) },
	"Terminated": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
		return err
	},
	"Unnoticed": func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Conn().Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
		return nil
	},
	"OpenRows": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Query(ctx, "SELECT generate_series(1, 1000)")
		return err
	},
	"Begun": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "BEGIN")
		return err
	},
	"BegunAndFailed": func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Conn().Exec(ctx, "BEGIN"); err != nil {
			return err
		}
		return errPaper
	},
	"Refused": func(ctx context.Context, tx pgx.Tx) error {
		_ = tx.Commit(ctx)
		_, err := tx.Conn().Exec(ctx, "BEGIN")
		return err
	},
	"Encoding": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "SET client_encoding = latin1; BEGIN")
		return err
	},
}

// TestEndedTransaction: an effect commits, and then closes its connection, loses it, leaves rows
// open or begins another transaction. Its identity is blocked, in every way to call.
func TestEndedTransaction(t *testing.T) {
	t.Parallel()
	type breaking = dedup.Effect[ticket]
	ways := map[string]func(ctx context.Context, f *fixture, effect breaking) error{
		"Do": func(ctx context.Context, f *fixture, effect breaking) error {
			_, err := dedup.Do(ctx, f.d, call("k"), effect)
			return err
		},
		"DoTx": func(ctx context.Context, f *fixture, effect breaking) error {
			tx, err := f.pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(ctx) }()
			_, err = dedup.DoTx(ctx, f.d, tx, call("k"), effect)
			return err
		},
		"BeginFunc": func(ctx context.Context, f *fixture, effect breaking) error {
			return f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, f.d, tx, call("k"), effect)
				return err
			})
		},
		"Nested": func(ctx context.Context, f *fixture, effect breaking) error {
			_, err := dedup.Do(ctx, f.d, call("outer"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
				_, _ = dedup.DoTx(ctx, f.d, tx, call("k"), effect)
				return ticket{}, nil
			})
			return err
		},
	}
	bothOrders(t, func(t *testing.T, p profile) {
		for name, leaves := range ended {
			for way, do := range ways {
				t.Run(fmt.Sprint(name, "/", way), func(t *testing.T) {
					t.Parallel()
					ctx, f := p.setup(t, nil, func(c *pgxpool.Config) { c.MaxConns = 2 })
					for range 2 {
						err := do(ctx, f, func(ctx context.Context, tx pgx.Tx) (ticket, error) {
							for _, sql := range []string{"INSERT INTO effects (ref) VALUES ('k')", "COMMIT"} {
								_, err := tx.Conn().Exec(ctx, sql)
								require.NoError(t, err)
							}
							return ticket{}, leaves(ctx, tx)
						})
						require.ErrorIs(t, err, dedup.ErrBroken)
						require.False(t, dedup.IsTransient(err))
					}
					require.Equal(t, 1, f.effects(t, "k"))
				})
			}
		}
	})
}

// TestEndedByTheCaller: the effect of a DoTx ends the caller's transaction by its own method, and
// another transaction begins on the connection. DoTx leaves that alone, and the identity is
// blocked.
func TestEndedByTheCaller(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		for _, panics := range []bool{false, true} {
			t.Run(fmt.Sprint("Panics=", panics), func(t *testing.T) {
				t.Parallel()
				ctx, f := p.setup(t, nil, func(c *pgxpool.Config) { c.MaxConns = 2 })
				outer, err := f.pool.Begin(ctx)
				require.NoError(t, err)
				var stranger pgx.Tx
				func() {
					defer func() { require.Equal(t, panics, recover() != nil) }()
					_, err = dedup.DoTx(ctx, f.d, outer, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
						on := tx.Conn()
						_, err := tx.Exec(ctx, "INSERT INTO effects (ref) VALUES ('k')")
						require.NoError(t, err)
						require.NoError(t, outer.Commit(ctx))
						stranger, err = f.pool.Begin(ctx)
						require.NoError(t, err)
						require.Same(t, on, stranger.Conn(), "the connection of the caller's transaction")
						_, err = stranger.Exec(ctx, "INSERT INTO effects (ref) VALUES ('stranger')")
						require.NoError(t, err)
						if panics {
							panic("after the COMMIT")
						}
						return ticket{}, nil
					})
					require.ErrorIs(t, err, dedup.ErrBroken)
				}()
				require.Equal(t, byte('T'), stranger.Conn().PgConn().TxStatus())
				require.NoError(t, stranger.Rollback(ctx))
				require.Zero(t, f.effects(t, "stranger"))
				_, err = dedup.Do(ctx, f.d, call("k"), effect("k"))
				require.ErrorIs(t, err, dedup.ErrBroken)
				require.Equal(t, 1, f.effects(t, "k"))
			})
		}
	})
}

// TestEndedInAnotherDatabase: a DoTx in another database than the pool's is broken. The pool's
// database does not get its record.
func TestEndedInAnotherDatabase(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	_, other := plain.setup(t, nil)
	tx, err := other.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = dedup.DoTx(ctx, f.d, tx, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Conn().Exec(ctx, "COMMIT; SET default_transaction_read_only = on")
		return ticket{}, err
	})
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.ErrorContains(t, err, "could not be recorded")
	_ = tx.Rollback(ctx)
	require.Zero(t, f.records(t))
}

// TestHiddenRow: on an engine with claims, a row that no look-up sees conflicts with the claim. It
// may be a twin's, so Lookup and Reset do not say that there is none.
func TestHiddenRow(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	f.exec(t, `INSERT INTO tool_dedup (scope, tool, key, fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at)
VALUES ('acme', 'create_ticket', 'k', sha256('k'), '', 'done', '{}', now(), now() + interval '1 hour', now() + interval '1 hour');
ALTER TABLE tool_dedup ENABLE ROW LEVEL SECURITY;
CREATE POLICY write ON tool_dedup FOR INSERT WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup TO pg_monitor`, pgx.QueryExecModeSimpleProtocol)
	d := newDeduper(t, f.db.Pool(t, claimFirst.configure, func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET ROLE pg_monitor")
			return err
		}
	}), nil)
	_, err := d.Lookup(ctx, "acme", "create_ticket", "k")
	require.ErrorIs(t, err, dedup.ErrSchema)
	_, err = d.Reset(ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "wrong answer"})
	require.ErrorIs(t, err, dedup.ErrSchema)
}
