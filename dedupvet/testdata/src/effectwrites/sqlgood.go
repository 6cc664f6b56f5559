package effectwrites

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
	"github.com/uptrace/bun"
	"gorm.io/gorm"

	"ent"
	"sqlstore"
)

func inTx(db *gorm.DB, tx *sql.Tx) *gorm.DB {
	session := db.Session(&gorm.Session{NewDB: true})
	session.Statement.ConnPool = tx
	return session
}

func (o *orms) session(tx *sql.Tx) *gorm.DB { return inTx(o.gorm, tx) }

// notes is made with a handle on the effect's transaction.
type notes struct{ db *gorm.DB }

func (n notes) add(note any) error { return n.db.Create(note).Error }

func (o *orms) throughTheTx(ctx context.Context, call dedup.Call, note any) {
	dedup.Do(ctx, o.d, call, sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
		tx.ExecContext(ctx, insert)
		session := o.gorm.Session(&gorm.Session{NewDB: true})
		session.Statement.ConnPool = tx
		session.WithContext(ctx).Create(note)
		inTx(o.gorm, tx).Create(note)
		notes{o.session(tx)}.add(note)
		gorm.G[int](session).Create(ctx, nil)
		session.Begin().Commit() // a savepoint
		o.bun.NewInsert().Conn(tx).Exec(ctx)
		o.queries.WithTx(tx).AddNote(ctx, "x")
		_, err := sqldedup.DoTx(ctx, o.d, tx, call, func(ctx context.Context) (int, error) {
			_, err := tx.ExecContext(ctx, insert)
			return 1, err
		})
		write := func() error { return sqlstore.New(tx).AddNote(ctx, "x") }
		if err == nil {
			err = write()
		}
		return 1, err
	}))
}

func addGood(ctx context.Context, db *sql.DB) { db.ExecContext(ctx, insert) }

// inCall makes a call in a transaction that it is given.
func (o *orms) inCall(ctx context.Context, tx *sql.Tx, call dedup.Call, then func() error) {
	sqldedup.DoTx(ctx, o.d, tx, call, func(ctx context.Context) (int, error) {
		tx.ExecContext(ctx, insert)
		return 1, then()
	})
}

func (o *orms) passesOn(ctx context.Context, tx *sql.Tx, call dedup.Call) {
	o.inCall(ctx, tx, call, func() error {
		_, err := tx.ExecContext(ctx, insert)
		return err
	})
}

func (o *orms) throughTheDB(ctx context.Context, tx pgx.Tx, old *ent.Note, note any) (int, error) {
	return sqldedup.Run(ctx, tx, func(ctx context.Context, db *sql.DB) (int, error) {
		addGood(ctx, db)
		bun.NewDB(db).NewInsert().Model(note).Exec(ctx)
		bun.NewDB(db).RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewInsert().Model(note).Exec(ctx)
			return err
		})
		sqlx.NewDb(db, "pgx").GetContext(ctx, note, insert)
		client := ent.NewClient(ent.Driver(dialect.OpenDB(db)))
		client.Note.Create().SetText("x").Save(ctx)
		client.Note.UpdateOne(old).Save(ctx)
		savepoint, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		defer savepoint.Rollback()
		if _, err := savepoint.ExecContext(ctx, insert); err != nil {
			return 0, err
		}
		return 1, savepoint.Commit()
	})
}

func (o *orms) throughTheCallers(ctx context.Context, call dedup.Call, note any) error {
	o.gorm.Transaction(func(tx *gorm.DB) error {
		_, err := sqldedup.DoTx(ctx, o.d, tx.Statement.ConnPool, call, func(ctx context.Context) (int, error) {
			return 1, tx.WithContext(ctx).Create(note).Error
		})
		return err
	})
	o.bun.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := sqldedup.DoTx(ctx, o.d, tx.Tx, call, func(ctx context.Context) (int, error) {
			_, err := tx.NewInsert().Model(note).Exec(ctx)
			return 1, err
		})
		return err
	})
	own, err := o.sqlx.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	queries := sqlstore.New(own)
	sqldedup.DoTx(ctx, o.d, own, call, func(ctx context.Context) (int, error) {
		if err := queries.AddNote(ctx, "x"); err != nil {
			return 0, err
		}
		return 1, own.GetContext(ctx, note, insert)
	})
	tx, err := o.ent.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = sqldedup.DoTx(ctx, o.d, tx, call, func(ctx context.Context) (*ent.Note, error) {
		return tx.Note.Create().SetText("x").Save(ctx)
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}
