package way

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

// openSQL opens a database on the session's pool that keeps as many connections as there are
// clients.
func openSQL(s *Session) *sql.DB {
	db := stdlib.OpenDBFromPool(s.Pool)
	db.SetMaxIdleConns(s.Clients)
	s.atEnd(db.Close)
	return db
}

func insertSQL(ctx context.Context, tx *sql.Tx, ref string) (r row, err error) {
	err = tx.QueryRowContext(ctx, effect, ref).Scan(&r.ID)
	return r, err
}

// bareSQL is the effect's transaction by database/sql, without protection.
func bareSQL(_ context.Context, s *Session) (caller, error) {
	db := openSQL(s)
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
	}, nil
}

// doSQL is dedup.Do with an effect of database/sql.
func doSQL(ctx context.Context, d *dedup.Deduper, keys []string) error {
	_, err := dedup.Do(ctx, d, call(keys[0]), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (row, error) {
		return insertSQL(ctx, tx, keys[0])
	}))
	return err
}

// booking is gorm's row of effects.
type booking struct {
	ID  int `gorm:"primaryKey"`
	Ref string
}

func (booking) TableName() string { return "effects" }

// doGorm is dedup.Do with an effect by gorm.
func doGorm(_ context.Context, s *Session) (caller, error) {
	orm, err := gorm.Open(postgres.New(postgres.Config{Conn: openSQL(s)}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	d, err := dedup.New(s.Pool, nil)
	return func(ctx context.Context, keys []string) error {
		_, err := dedup.Do(ctx, d, call(keys[0]), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (row, error) {
			session := orm.Session(&gorm.Session{NewDB: true, Context: ctx})
			session.Statement.ConnPool = tx
			b := booking{Ref: keys[0]}
			err := session.Create(&b).Error
			return row{ID: b.ID}, err
		}))
		return err
	}, err
}
