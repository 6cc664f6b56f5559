package orm_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

// inTx is gorm on a transaction that somebody else ends.
func inTx(ctx context.Context, db *gorm.DB, tx *sql.Tx) *gorm.DB {
	session := db.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = tx
	return session
}

// An effect that writes through gorm.
func Example_gorm() {
	s, done := exampleService()
	defer done()
	ctx := context.Background()
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: s.db}), &gorm.Config{})
	must(err)

	for range 2 {
		result, err := dedup.Do(ctx, s.d, call("call the guest"), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (Note, error) {
			note := Note{Text: "call the guest"}
			err := inTx(ctx, db, tx).Create(&note).Error
			return note, err
		}))
		must(err)
		fmt.Println(result.Value.Text, "replayed:", result.Replayed)
	}
	// Output:
	// call the guest replayed: false
	// call the guest replayed: true
}

// The order and the call are committed together.
func Example_gormBeginFunc() {
	s, done := exampleService()
	defer done()
	ctx, d, call := context.Background(), s.d, call("invoice 17")
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: s.db}), &gorm.Config{})
	must(err)

	err = sqldedup.BeginFunc(ctx, d, func(tx *sql.Tx) error {
		orm := inTx(ctx, db, tx)
		if err := orm.Create(&Note{Text: "order 17"}).Error; err != nil {
			return err
		}
		result, err := sqldedup.DoTx(ctx, d, tx, call, func(ctx context.Context) (Note, error) {
			note := Note{Text: "invoice 17"}
			err := orm.WithContext(ctx).Create(&note).Error
			return note, err
		})
		fmt.Println(result.Value.Text, "replayed:", result.Replayed)
		return err
	})
	must(err)
	// Output: invoice 17 replayed: false
}

// A call inside a transaction that gorm has begun. A refusal is in it, and is committed.
func Example_gormTransaction() {
	s, done := exampleService()
	defer done()
	ctx, d, call := context.Background(), s.d, call("invoice 17")
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: s.db}), &gorm.Config{})
	must(err)

	var refused *dedup.RefusedError
	err = db.WithContext(context.WithoutCancel(ctx)).Transaction(func(tx *gorm.DB) error {
		_, err := sqldedup.DoTx(ctx, d, tx.Statement.ConnPool, call, func(ctx context.Context) (Note, error) {
			note := Note{Text: "invoice 17"}
			err := tx.WithContext(ctx).Create(&note).Error
			return note, err
		})
		if errors.As(err, &refused) {
			return nil // commit: any other error of Transaction's rolls back, and forgets the refusal
		}
		return err
	})
	must(err)
	fmt.Println("refused:", refused != nil)
	// Output: refused: false
}
