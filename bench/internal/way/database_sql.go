package way

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

// SQL is the transaction of database/sql that the effect needs anyway.
func SQL() Way {
	start := func(_ context.Context, env Env, pool *pgxpool.Pool) (caller, func() error, error) {
		db := openSQL(pool, env)
		return func(ctx context.Context, keys []string) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := insertSQL(ctx, tx, keys[0]); err != nil {
				return err
			}
			return tx.Commit()
		}, db.Close, nil
	}
	return Way{Name: "sql", Title: "sql.Tx", Batch: 1, Open: onPool(start)}
}

// openSQL opens a database of pool's that keeps as many connections as there are clients.
func openSQL(pool *pgxpool.Pool, env Env) *sql.DB {
	db := stdlib.OpenDBFromPool(pool)
	db.SetMaxIdleConns(env.Clients)
	return db
}

func insertSQL(ctx context.Context, tx *sql.Tx, ref string) (r row, err error) {
	err = tx.QueryRowContext(ctx, effect, ref).Scan(&r.ID)
	return r, err
}

// DoSQL is dedup.Do with an effect of database/sql.
func DoSQL() Way {
	return Way{
		Name: "do-sql", Title: "dedup.Do, sql.Tx", Batch: 1, Replays: true, Prepare: createRecords,
		Open: withDeduper(func(ctx context.Context, d *dedup.Deduper, keys []string) error {
			_, err := dedup.Do(ctx, d, call(keys[0]), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (row, error) {
				return insertSQL(ctx, tx, keys[0])
			}))
			return err
		}),
	}
}

// Gorm is the same transaction by gorm, and so gorm's own time.
func Gorm() Way {
	return Way{Name: "gorm", Title: "gorm", Batch: 1, Open: withGorm(func(_ context.Context, _ *pgxpool.Pool, orm *gorm.DB) (caller, error) {
		return func(ctx context.Context, keys []string) error {
			return orm.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				_, err := insertGorm(tx, keys[0])
				return err
			})
		}, nil
	})}
}

// DoGorm is dedup.Do with an effect of gorm's.
func DoGorm() Way {
	return Way{
		Name: "do-gorm", Title: "dedup.Do, gorm", Batch: 1, Replays: true, Prepare: createRecords,
		Open: withGorm(func(_ context.Context, pool *pgxpool.Pool, orm *gorm.DB) (caller, error) {
			d, err := dedup.New(pool, nil)
			return func(ctx context.Context, keys []string) error {
				_, err := dedup.Do(ctx, d, call(keys[0]), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (row, error) {
					session := orm.Session(&gorm.Session{NewDB: true, Context: ctx})
					session.Statement.ConnPool = tx
					return insertGorm(session, keys[0])
				}))
				return err
			}, err
		}),
	}
}

func withGorm(start func(context.Context, *pgxpool.Pool, *gorm.DB) (caller, error)) open {
	return onPool(func(ctx context.Context, env Env, pool *pgxpool.Pool) (caller, func() error, error) {
		db := openSQL(pool, env)
		orm, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
		if err != nil {
			return nil, db.Close, err
		}
		call, err := start(ctx, pool, orm)
		return call, db.Close, err
	})
}

// booking is a row of effects as gorm has it.
type booking struct {
	ID  int `gorm:"primaryKey"`
	Ref string
}

func (booking) TableName() string { return "effects" }

func insertGorm(tx *gorm.DB, ref string) (row, error) {
	b := booking{Ref: ref}
	err := tx.Create(&b).Error
	return row{ID: b.ID}, err
}
