package lostcommit

import (
	"context"
	"database/sql"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/sqldedup"
)

// RunGorm runs the campaign with effects that write through gorm.
func RunGorm(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(func(withDedup bool) (lab.Arm, error) {
		var handles []*sql.DB
		defer func() {
			for _, handle := range handles {
				_ = handle.Close()
			}
		}()
		return arm(ctx, l, p, withDedup, func(c *lab.Client) (lab.Caller, error) {
			handle := stdlib.OpenDBFromPool(c.Pool)
			handles = append(handles, handle)
			orm, err := gorm.Open(postgres.New(postgres.Config{Conn: handle}), &gorm.Config{Logger: logger.Discard, DisableAutomaticPing: true})
			if withDedup {
				return withGorm(orm), err
			}
			return withoutGorm(handle, orm), err
		})
	})
}

// withGorm is the library with effects that write through gorm.
func withGorm(orm *gorm.DB) lab.Caller {
	return func(ctx context.Context, c *lab.Client, key string) (int64, error) {
		r, err := dedup.Do(ctx, c.D, lab.Call(key), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int64, error) {
			return runGorm(on(ctx, orm, tx), key)
		}))
		return r.Value, err
	}
}

// withoutGorm is a transaction of gorm's that is repeated after any error. As in
// [lab.Client.InTx] the wait for a connection does not count.
func withoutGorm(db *sql.DB, orm *gorm.DB) lab.Caller {
	return func(ctx context.Context, c *lab.Client, key string) (run int64, err error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(ctx, c.Limit)
		defer cancel()
		err = on(ctx, orm, conn).Transaction(func(tx *gorm.DB) (err error) {
			run, err = runGorm(tx, key)
			return err
		})
		return run, err
	}
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
