package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/sqllex/corpus"
)

// dbtx and queries are what sqlc generates.
type dbtx interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

type queries struct{ db dbtx }

func (q *queries) WithTx(tx pgx.Tx) *queries { return &queries{db: tx} }

const insertEffect = `-- name: InsertEffect :one
INSERT INTO effects (ref) VALUES ($1) RETURNING ref`

func (q *queries) InsertEffect(ctx context.Context, ref string) (string, error) {
	err := q.db.QueryRow(ctx, insertEffect, ref).Scan(&ref)
	return ref, err
}

func leaveK(ctx context.Context, tx dbtx) error {
	_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`)
	return err
}

// effectTxUses work on an effect's transaction as on any other; each leaves one
// effect "k".
var effectTxUses = map[string]func(t *testing.T, ctx context.Context, tx pgx.Tx) error{
	"Exec": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, "k")
		require.EqualValues(t, 1, tag.RowsAffected())
		return err
	},
	"Query": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `INSERT INTO effects (ref) VALUES ($1) RETURNING ref`, "k")
		require.NoError(t, err)
		refs, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.Equal(t, []string{"k"}, refs)
		return err
	},
	"QueryRow": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		var ref string
		err := tx.QueryRow(ctx, `INSERT INTO effects (ref) VALUES ($1) RETURNING ref`, "k").Scan(&ref)
		require.Equal(t, "k", ref)
		return err
	},
	"NamedArgs": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES (@ref)`, pgx.NamedArgs{"ref": "k"})
		return err
	},
	"NoRowsIsNoFailure": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		var ref string
		require.ErrorIs(t, tx.QueryRow(ctx, `SELECT ref FROM effects WHERE false`).Scan(&ref), pgx.ErrNoRows)
		return leaveK(ctx, tx)
	},
	"SendBatch": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO effects (ref) VALUES ($1)`, "k")
		b.Queue(`SELECT count(*) FROM effects`).QueryRow(func(row pgx.Row) error {
			var n int
			err := row.Scan(&n)
			require.Equal(t, 1, n)
			return err
		})
		return tx.SendBatch(ctx, b).Close()
	},
	"EmptyBatch": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		require.NoError(t, tx.SendBatch(ctx, &pgx.Batch{}).Close())
		return leaveK(ctx, tx)
	},
	"CopyFrom": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		n, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"ref"}, pgx.CopyFromRows([][]any{{"k"}, {"commit"}}))
		require.EqualValues(t, 2, n)
		return err
	},
	"Prepare": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		description, err := tx.Prepare(ctx, "insert_effect", `INSERT INTO effects (ref) VALUES ($1)`)
		require.NoError(t, err)
		require.Len(t, description.ParamOIDs, 1)
		_, err = tx.Exec(ctx, "insert_effect", "k")
		require.NoError(t, err)
		return tx.Conn().Deallocate(ctx, "insert_effect")
	},
	"LargeObjects": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		objects := tx.LargeObjects()
		oid, err := objects.Create(ctx, 0)
		require.NoError(t, err)
		object, err := objects.Open(ctx, oid, pgx.LargeObjectModeRead|pgx.LargeObjectModeWrite)
		require.NoError(t, err)
		_, err = object.Write([]byte("commit"))
		require.NoError(t, err)
		_, err = object.Seek(0, io.SeekStart)
		require.NoError(t, err)
		text, err := io.ReadAll(object)
		require.NoError(t, err)
		require.Equal(t, "commit", string(text))
		require.NoError(t, object.Close())
		require.NoError(t, objects.Unlink(ctx, oid))
		return leaveK(ctx, tx)
	},
	"Sqlc": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		ref, err := (&queries{}).WithTx(tx).InsertEffect(ctx, "k")
		require.Equal(t, "k", ref)
		return err
	},
	"BeginFunc": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		failed := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`)
			return errors.Join(err, errOwn)
		})
		require.ErrorIs(t, failed, errOwn)
		return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			return leaveK(ctx, tx)
		})
	},
	"TwoLevelsOfSavepoints": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		outer, err := tx.Begin(ctx)
		require.NoError(t, err)
		defer outer.Rollback(ctx)
		require.NoError(t, leaveK(ctx, outer))

		undone, err := outer.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, leaveK(ctx, undone))
		require.NoError(t, undone.Rollback(ctx))
		require.ErrorIs(t, undone.Rollback(ctx), pgx.ErrTxClosed)

		kept, err := outer.Begin(ctx)
		require.NoError(t, err)
		_, err = kept.Exec(ctx, `INSERT INTO effects (ref) VALUES ('other')`)
		require.NoError(t, err)
		require.NoError(t, kept.Commit(ctx))
		require.ErrorIs(t, kept.Commit(ctx), pgx.ErrTxClosed)
		return outer.Commit(ctx)
	},
	"SavepointMendsAFailure": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		sub, err := tx.Begin(ctx)
		require.NoError(t, err)
		_, err = sub.Exec(ctx, `SELECT 1/0`)
		require.Error(t, err)
		require.NoError(t, sub.Rollback(ctx))
		return leaveK(ctx, tx)
	},
	"SavepointBySQL": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SAVEPOINT a; INSERT INTO effects (ref) VALUES ('k'); ROLLBACK TO SAVEPOINT a; INSERT INTO effects (ref) VALUES ('k'); RELEASE a`)
		return err
	},
	"SavepointLeftOpen": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		sub, err := tx.Begin(ctx)
		require.NoError(t, err)
		return leaveK(ctx, sub)
	},
	"DeferredRollbackOfSavepoint": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		sub, err := tx.Begin(ctx)
		require.NoError(t, err)
		defer sub.Rollback(ctx)
		require.NoError(t, leaveK(ctx, sub))
		return sub.Commit(ctx)
	},
	"AnotherGoroutine": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		answer := make(chan error)
		go func() {
			_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`)
			answer <- err
		}()
		return <-answer
	},
	"Conn": func(t *testing.T, ctx context.Context, tx pgx.Tx) error {
		require.NotNil(t, tx.Conn().TypeMap())
		_, err := tx.Conn().Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`)
		return err
	},
}

func TestEffectTx(t *testing.T) {
	t.Parallel()

	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, b := setup(t, nil, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			for name, use := range effectTxUses {
				if mode == pgx.QueryExecModeSimpleProtocol && name == "Prepare" {
					continue // pgx: a statement cannot be named there
				}
				t.Run(name, func(t *testing.T) { // one after the other: they share the database
					b.exec(t, `DELETE FROM effects; DELETE FROM tool_dedup`)
					does := func(ctx context.Context, tx pgx.Tx) (ticket, error) { return ticket{}, use(t, ctx, tx) }

					result, err := dedup.Do(ctx, b.d, call("do"), does)
					require.NoError(t, err)
					require.False(t, result.Replayed)
					require.Equal(t, 1, b.effects(t, "k"))
					require.Equal(t, 1, b.records(t))

					b.exec(t, `DELETE FROM effects`)
					require.NoError(t, pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
						_, err := dedup.DoTx(ctx, b.d, tx, call("tx"), does)
						return err
					}))
					require.Equal(t, 1, b.effects(t, "k"))
					require.Equal(t, 2, b.records(t))
				})
			}
		})
	}

	t.Run("ClosedWhenTheEffectHasReturned", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, nil)
		for name, leave := range map[string]func() error{
			"Committed":  func() error { return nil },
			"RolledBack": func() error { return errOwn },
			"Panicked":   func() error { panic(errOwn) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var outer, inner pgx.Tx
				_ = caught(func() error {
					_, err := dedup.Do(ctx, b.d, call(name), func(ctx context.Context, tx pgx.Tx) (int, error) {
						var err error
						outer = tx
						inner, err = tx.Begin(ctx)
						require.NoError(t, err)
						return 1, leave()
					})
					return err
				})
				for _, tx := range []pgx.Tx{outer, inner} {
					for method, err := range everyMethod(ctx, tx) {
						require.ErrorIs(t, err, pgx.ErrTxClosed, method)
					}
				}
			})
		}
	})

	t.Run("LargeObjectsAfterTheEffect", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, nil)
		var kept pgx.Tx
		_, err := dedup.Do(ctx, b.d, call("k"), func(_ context.Context, tx pgx.Tx) (int, error) { kept = tx; return 1, nil })
		require.NoError(t, err)
		objects := kept.LargeObjects()
		_, err = objects.Create(ctx, 0)
		require.ErrorIs(t, err, pgx.ErrTxClosed)
	})

	t.Run("RefusedRowsBehave", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, nil)
		_, err := dedup.Do(ctx, b.d, call("k"), func(ctx context.Context, tx pgx.Tx) (int, error) {
			rows, err := tx.Query(ctx, "COMMIT")
			require.ErrorIs(t, err, guard.ErrTxControl)
			defer rows.Close()
			require.False(t, rows.Next())
			require.ErrorIs(t, rows.Err(), guard.ErrTxControl)
			require.ErrorIs(t, rows.Scan(), guard.ErrTxControl)
			_, err = rows.Values()
			require.ErrorIs(t, err, guard.ErrTxControl)
			require.Empty(t, rows.FieldDescriptions())
			require.Empty(t, rows.RawValues())
			require.Zero(t, rows.CommandTag())
			_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			require.ErrorIs(t, err, guard.ErrTxControl)
			return 0, err
		})
		require.ErrorIs(t, err, guard.ErrTxControl)
		require.Zero(t, b.records(t))
	})
}

func everyMethod(ctx context.Context, tx pgx.Tx) map[string]error {
	_, begin := tx.Begin(ctx)
	_, exec := tx.Exec(ctx, "SELECT 1")
	_, query := tx.Query(ctx, "SELECT 1")
	_, prepare := tx.Prepare(ctx, "p", "SELECT 1")
	_, copied := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"ref"}, pgx.CopyFromRows(nil))
	b := &pgx.Batch{}
	b.Queue("SELECT 1")
	_, control := tx.Exec(ctx, "COMMIT")
	return map[string]error{
		"Begin": begin, "Exec": exec, "Query": query, "Prepare": prepare, "CopyFrom": copied, "ControlSQL": control,
		"QueryRow": tx.QueryRow(ctx, "SELECT 1").Scan(nil), "SendBatch": tx.SendBatch(ctx, b).Close(),
		"EmptyBatch": tx.SendBatch(ctx, &pgx.Batch{}).Close(),
		"Commit":     tx.Commit(ctx), "Rollback": tx.Rollback(ctx),
	}
}

// TestControlIsRefused sends every spelling through an effect, in every mode.
func TestControlIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, b := setupCorpus(t, mode)
			for i, sql := range corpus.Control {
				var answers []error
				_, err := dedup.Do(ctx, b.d, call(fmt.Sprint(i)), func(ctx context.Context, tx pgx.Tx) (int, error) {
					if _, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, sql); err != nil {
						return 0, err
					}
					answers = controlDoors(ctx, tx, sql)
					return 1, nil // the refusal is not passed on
				})
				for door, answer := range answers {
					require.ErrorIs(t, answer, guard.ErrTxControl, "%q by door %d", sql, door)
				}
				require.Len(t, answers, 6, "%q", sql)
				require.ErrorIs(t, err, guard.ErrTxControl, "%q", sql)
			}
			require.Zero(t, scalar[int](t, b, `SELECT count(*) FROM effects`))
			require.Zero(t, b.records(t))
		})
	}
}

// controlDoors sends sql by every method that takes SQL.
func controlDoors(ctx context.Context, tx pgx.Tx, sql string) []error {
	_, exec := tx.Exec(ctx, sql)
	_, simple := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	rows, query := tx.Query(ctx, sql)
	rows.Close()
	queryRow := tx.QueryRow(ctx, sql).Scan(nil)
	_, prepare := tx.Prepare(ctx, "", sql)
	b := &pgx.Batch{}
	b.Queue("SELECT 1")
	b.Queue(sql)
	batch := tx.SendBatch(ctx, b).Close()
	return []error{exec, simple, query, queryRow, prepare, batch}
}

// TestHarmlessStatements runs every harmless text through an effect.
func TestHarmlessStatements(t *testing.T) {
	t.Parallel()
	ctx, b := setupCorpus(t, pgx.QueryExecModeCacheStatement)
	_, err := dedup.Do(ctx, b.d, call("k"), func(ctx context.Context, tx pgx.Tx) (int, error) {
		for _, sql := range corpus.Harmless {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return 0, fmt.Errorf("%q: %w", sql, err)
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`)
		return 1, err
	})
	require.NoError(t, err)
	require.Equal(t, 1, b.effects(t, "k"))
	require.Equal(t, 1, b.records(t))
}

// setupCorpus is setup with the database objects that the texts of the corpus use.
func setupCorpus(t *testing.T, mode pgx.QueryExecMode) (context.Context, *bundle) {
	t.Helper()
	ctx, b := setup(t, nil, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
	b.exec(t, `DROP TABLE effects`)
	b.exec(t, corpus.Schema, pgx.QueryExecModeSimpleProtocol)
	return ctx, b
}

// TestSwappedAndEnded: an effect commits its transaction and begins another on the connection. Its
// identity is blocked, also if the context ends before the record is sent.
func TestSwappedAndEnded(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		for range 2 {
			ctx, cancel := context.WithCancel(ctx)
			_, err := dedup.Do(ctx, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (int, error) {
				for _, sql := range []string{`INSERT INTO effects (ref) VALUES ('k')`, `COMMIT`, `BEGIN`} {
					_, err := tx.Conn().Exec(ctx, sql)
					require.NoError(t, err)
				}
				cancel()
				return 0, nil
			})
			require.Error(t, err)
		}
		require.Equal(t, 1, f.effects(t, "k"))
		_, err := dedup.Do(ctx, f.d, call("k"), func(context.Context, pgx.Tx) (int, error) { return 0, nil })
		require.ErrorIs(t, err, dedup.ErrBroken)
	})
}

// TestHandledErrorBeforeAFault: an effect handles an error behind a savepoint, and ignores a
// deadlock that follows in a statement, a batch or a copy. The deadlock is retried.
func TestHandledErrorBeforeAFault(t *testing.T) {
	t.Parallel()
	const deadlock = `DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$`
	ctx, b := setup(t, nil)
	b.exec(t, `CREATE FUNCTION deadlock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$;
CREATE TABLE doomed (n int);
CREATE TRIGGER deadlock BEFORE INSERT ON doomed FOR EACH ROW EXECUTE FUNCTION deadlock()`)
	for name, fail := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"Copy": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"doomed"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}}))
			return err
		},
		"Exec": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, deadlock); return err },
		"Batch": func(ctx context.Context, tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue(deadlock)
			return tx.SendBatch(ctx, batch).Close()
		},
		"BatchExec": func(ctx context.Context, tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue(deadlock)
			results := tx.SendBatch(ctx, batch)
			_, err := results.Exec()
			return errors.Join(err, results.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			_, err := dedup.Do(ctx, b.d, call(name), func(ctx context.Context, tx pgx.Tx) (int, error) {
				runs++
				err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, `SELECT 1/0`); return err })
				require.Error(t, err)
				if runs == 1 {
					require.Error(t, fail(ctx, tx))
				}
				return runs, nil
			})
			require.NoError(t, err)
			require.Equal(t, 2, runs)
		})
	}
}
