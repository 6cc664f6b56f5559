package orm_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/examples/orm/db"
	"github.com/tooldedup/dedup/examples/orm/ent"
	"github.com/tooldedup/dedup/gormdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/sqldedup"
)

// handle is an ORM on a transaction: an effect's, or its own.
type handle struct {
	create func(ctx context.Context, text string) (id int64, err error)
	find   func(ctx context.Context, id int64) (text string, err error)
	// nested creates text in a transaction inside this one, which ends with end. It is nil if the
	// ORM has none.
	nested func(ctx context.Context, text string, end error) error
}

// way makes a call whose effect goes through an ORM.
type way = func(ctx context.Context, s *service, key string, effect func(ctx context.Context, h handle) (int64, error)) (dedup.Result[int64], error)

// orm is one ORM. do makes a call through dedup.Do. doTx makes one in a transaction that the ORM
// began, and commits if the call succeeds.
type orm struct {
	name     string
	do, doTx way
}

// over returns a do that opens an ORM on an effect's handle.
func over[H sqldedup.Handle](open func(ctx context.Context, s *service, on H) (handle, error)) way {
	return func(ctx context.Context, s *service, key string, effect func(context.Context, handle) (int64, error)) (dedup.Result[int64], error) {
		return dedup.Do(ctx, s.d, call(key), sqldedup.Effect(func(ctx context.Context, on H) (int64, error) {
			h, err := open(ctx, s, on)
			if err != nil {
				return 0, err
			}
			return effect(ctx, h)
		}))
	}
}

// within returns a doTx in a transaction that begin begins.
func within[T interface {
	Commit() error
	Rollback() error
}](begin func(ctx context.Context, s *service) (tx T, below sqldedup.Tx, h handle, err error)) way {
	return func(ctx context.Context, s *service, key string, effect func(context.Context, handle) (int64, error)) (dedup.Result[int64], error) {
		tx, below, h, err := begin(context.WithoutCancel(ctx), s)
		if err != nil {
			return dedup.Result[int64]{}, err
		}
		defer func() { _ = tx.Rollback() }()
		result, err := sqldedup.DoTx(ctx, s.d, below, call(key), func(ctx context.Context) (int64, error) { return effect(ctx, h) })
		if err == nil {
			err = tx.Commit()
		}
		return result, err
	}
}

func orms() []orm {
	return []orm{
		{
			name: "gorm",
			do: func(ctx context.Context, s *service, key string, effect func(context.Context, handle) (int64, error)) (dedup.Result[int64], error) {
				g, err := openGorm(s.db, false)
				if err != nil {
					return dedup.Result[int64]{}, err
				}
				return dedup.Do(ctx, s.d, call(key), gormdedup.Effect(g, func(ctx context.Context, tx *gorm.DB) (int64, error) { return effect(ctx, gormHandle(tx)) }))
			},
			doTx: within(func(ctx context.Context, s *service) (gormTx, sqldedup.Tx, handle, error) {
				g, err := openGorm(s.db, false)
				tx := g.WithContext(ctx).Begin()
				return gormTx{tx}, tx.Statement.ConnPool, gormHandle(tx), errors.Join(err, tx.Error)
			}),
		},
		{
			name: "gormPrepared",
			do: over(func(ctx context.Context, s *service, on *sql.DB) (handle, error) {
				g, err := openGorm(on, true)
				return gormHandle(g), err
			}),
			doTx: within(func(ctx context.Context, s *service) (gormTx, sqldedup.Tx, handle, error) {
				g, err := openGorm(s.db, true)
				tx := g.WithContext(ctx).Begin()
				return gormTx{tx}, tx.Statement.ConnPool.(*gorm.PreparedStmtTX).Tx, gormHandle(tx), errors.Join(err, tx.Error)
			}),
		},
		{
			name: "bun",
			do: over(func(_ context.Context, _ *service, on *sql.DB) (handle, error) {
				return bunHandle(bun.NewDB(on, pgdialect.New())), nil
			}),
			doTx: within(func(ctx context.Context, s *service) (bun.Tx, sqldedup.Tx, handle, error) {
				tx, err := bun.NewDB(s.db, pgdialect.New()).BeginTx(ctx, nil)
				return tx, tx.Tx, bunHandle(tx), err
			}),
		},
		{
			name: "sqlx",
			do: over(func(_ context.Context, _ *service, on *sql.DB) (handle, error) {
				x := sqlx.NewDb(on, "pgx")
				return sqlxHandle(x, func(ctx context.Context) (*sqlx.Tx, error) { return x.BeginTxx(ctx, nil) }), nil
			}),
			doTx: within(func(ctx context.Context, s *service) (*sqlx.Tx, sqldedup.Tx, handle, error) {
				tx, err := sqlx.NewDb(s.db, "pgx").BeginTxx(ctx, nil)
				return tx, tx, sqlxHandle(tx, nil), err
			}),
		},
		{
			name: "ent",
			do: over(func(_ context.Context, _ *service, on *sql.DB) (handle, error) {
				client := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, on)))
				return entHandle(client), nil
			}),
			doTx: within(func(ctx context.Context, s *service) (*ent.Tx, sqldedup.Tx, handle, error) {
				tx, err := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, s.db))).Tx(ctx)
				if err != nil {
					return nil, nil, handle{}, err
				}
				h := entHandle(tx.Client())
				h.nested = nil // ent refuses a transaction in a transaction
				return tx, tx, h, nil
			}),
		},
		{
			name: "sqlc",
			do:   over(func(_ context.Context, _ *service, tx *sql.Tx) (handle, error) { return sqlcHandle(tx), nil }),
			doTx: within(func(ctx context.Context, s *service) (*sql.Tx, sqldedup.Tx, handle, error) {
				tx, err := s.db.BeginTx(ctx, nil)
				return tx, tx, sqlcHandle(tx), err
			}),
		},
	}
}

// openGorm opens gorm, which prepares each statement or none.
func openGorm(on *sql.DB, prepare bool) (*gorm.DB, error) {
	return gorm.Open(postgres.New(postgres.Config{Conn: on}), &gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
}

// gormTx ends a transaction of gorm.
type gormTx struct{ tx *gorm.DB }

func (t gormTx) Commit() error   { return t.tx.Commit().Error }
func (t gormTx) Rollback() error { return t.tx.Rollback().Error }

func gormHandle(g *gorm.DB) handle {
	create := func(g *gorm.DB, text string) (int64, error) {
		note := Note{Text: text}
		err := g.Create(&note).Error
		return note.ID, err
	}
	return handle{
		create: func(ctx context.Context, text string) (int64, error) { return create(g.WithContext(ctx), text) },
		find: func(ctx context.Context, id int64) (string, error) {
			var note Note
			err := g.WithContext(ctx).First(&note, id).Error
			return note.Text, err
		},
		nested: func(ctx context.Context, text string, end error) error {
			return g.WithContext(ctx).Transaction(func(g *gorm.DB) error {
				_, err := create(g, text)
				return errors.Join(err, end)
			})
		},
	}
}

func bunHandle(b bun.IDB) handle {
	create := func(ctx context.Context, b bun.IDB, text string) (int64, error) {
		note := Note{Text: text}
		_, err := b.NewInsert().Model(&note).Returning("id").Exec(ctx)
		return note.ID, err
	}
	return handle{
		create: func(ctx context.Context, text string) (int64, error) { return create(ctx, b, text) },
		find: func(ctx context.Context, id int64) (string, error) {
			var note Note
			err := b.NewSelect().Model(&note).Where("id = ?", id).Scan(ctx)
			return note.Text, err
		},
		nested: func(ctx context.Context, text string, end error) error {
			return b.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := create(ctx, tx, text)
				return errors.Join(err, end)
			})
		},
	}
}

// sqlxHandle has nested transactions if begin begins them.
func sqlxHandle(x sqlx.ExtContext, begin func(ctx context.Context) (*sqlx.Tx, error)) handle {
	create := func(ctx context.Context, x sqlx.ExtContext, text string) (id int64, err error) {
		rows, err := sqlx.NamedQueryContext(ctx, x, `INSERT INTO notes (text) VALUES (:text) RETURNING id`, Note{Text: text})
		if err != nil {
			return 0, err
		}
		defer func() { _ = rows.Close() }()
		if !rows.Next() {
			return 0, rows.Err()
		}
		return id, rows.Scan(&id)
	}
	h := handle{
		create: func(ctx context.Context, text string) (int64, error) { return create(ctx, x, text) },
		find: func(ctx context.Context, id int64) (string, error) {
			var note Note
			err := sqlx.GetContext(ctx, x, &note, `SELECT * FROM notes WHERE id = $1`, id)
			return note.Text, err
		},
	}
	if begin != nil {
		h.nested = func(ctx context.Context, text string, end error) error {
			tx, err := begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := create(ctx, tx, text); err != nil || end != nil {
				return errors.Join(err, end)
			}
			return tx.Commit()
		}
	}
	return h
}

func entHandle(client *ent.Client) handle {
	return handle{
		create: func(ctx context.Context, text string) (int64, error) {
			note, err := client.Note.Create().SetText(text).Save(ctx)
			if err != nil {
				return 0, err
			}
			return int64(note.ID), nil
		},
		find: func(ctx context.Context, id int64) (string, error) {
			note, err := client.Note.Get(ctx, int(id))
			if err != nil {
				return "", err
			}
			return note.Text, nil
		},
		nested: func(ctx context.Context, text string, end error) error {
			tx, err := client.Tx(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.Note.Create().SetText(text).Save(ctx); err != nil || end != nil {
				return errors.Join(err, end)
			}
			return tx.Commit()
		},
	}
}

func sqlcHandle(tx *sql.Tx) handle {
	queries := db.New(tx)
	return handle{
		create: func(ctx context.Context, text string) (int64, error) {
			note, err := queries.AddNote(ctx, text)
			return note.ID, err
		},
		find: func(ctx context.Context, id int64) (string, error) {
			note, err := queries.GetNote(ctx, id)
			return note.Text, err
		},
	}
}

var errOwn = errors.New("the effect's own")

// TestORMs creates, finds and nests through each ORM, on an effect's handle and in its own
// transaction, and violates a constraint. Package sqldedup tests the limits of database/sql.
func TestORMs(t *testing.T) {
	t.Parallel()
	for _, o := range orms() {
		for name, do := range map[string]way{"Do": o.do, "DoTx": o.doTx} {
			t.Run(o.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := testService(t)
				effect := func(ctx context.Context, h handle) (int64, error) {
					id, err := h.create(ctx, "first")
					require.NoError(t, err)
					text, err := h.find(ctx, id)
					require.NoError(t, err)
					require.Equal(t, "first", text)
					if h.nested == nil {
						return id, nil
					}
					require.NoError(t, h.nested(ctx, "kept", nil))
					require.ErrorIs(t, h.nested(ctx, "undone", errOwn), errOwn)
					require.Error(t, h.nested(ctx, "first", nil), "its text is taken")
					_, err = h.create(ctx, "last")
					return id, err
				}
				result, err := do(t.Context(), s, "k", effect)
				require.NoError(t, err)
				notes := s.notes(t)
				require.Contains(t, [][]string{{"first"}, {"first", "kept", "last"}}, notes)
				again, err := do(t.Context(), s, "k", effect)
				require.NoError(t, err)
				require.True(t, again.Replayed)
				require.Equal(t, result.Value, again.Value)

				_, err = do(t.Context(), s, "taken", func(ctx context.Context, h handle) (int64, error) {
					_, err := h.create(ctx, "undone")
					require.NoError(t, err)
					return h.create(ctx, "first")
				})
				var taken *pgconn.PgError
				require.ErrorAs(t, err, &taken)
				require.Equal(t, notes, s.notes(t))
			})
		}
	}
}

func testService(t *testing.T) *service {
	t.Helper()
	s, err := newService(t.Context(), pgtest.New(t).Pool(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.db.Close() })
	return s
}

func (s *service) notes(t *testing.T) (notes []string) {
	t.Helper()
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(text ORDER BY id), '{}') FROM notes`).Scan(&notes))
	return notes
}
