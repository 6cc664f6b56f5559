package lostcommit

import (
	"context"
	"database/sql"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/sqldedup"
)

// withGorm is the library with effects that write through gorm.
func withGorm(pool *pgxpool.Pool, db *sql.DB) (caller, error) {
	orm, err := openGorm(db)
	if err != nil {
		return nil, err
	}
	return do(pool, func(key string) dedup.Effect[int64] {
		return sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int64, error) { return runGorm(on(ctx, orm, tx), key) })
	})
}

// withoutGorm is a transaction of gorm's that is repeated after any error. As in
// [lab.RunNaivelyWithin] the wait for a connection does not count.
func withoutGorm(_ *pgxpool.Pool, db *sql.DB) (caller, error) {
	orm, err := openGorm(db)
	return func(ctx context.Context, key string) (run int64, err error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(ctx, answerWait)
		defer cancel()
		err = on(ctx, orm, conn).Transaction(func(tx *gorm.DB) (err error) {
			run, err = runGorm(tx, key)
			return err
		})
		return run, err
	}, err
}

func openGorm(db *sql.DB) (*gorm.DB, error) {
	return gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard, DisableAutomaticPing: true})
}

// on is gorm on a connection or transaction.
func on(ctx context.Context, orm *gorm.DB, conn gorm.ConnPool) *gorm.DB {
	session := orm.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = conn
	return session
}

// runGorm is [lab.Run] through gorm.
func runGorm(tx *gorm.DB, key string) (run int64, err error) {
	err = tx.Raw(strings.ReplaceAll(lab.Effect, "$1", "?"), key).Row().Scan(&run)
	return run, err
}
