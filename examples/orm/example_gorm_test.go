package orm_test

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/gormdedup"
)

// An effect that writes through gorm.
func Example_gorm() {
	s, done := exampleService()
	defer done()
	ctx := context.Background()
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: s.db}), &gorm.Config{})
	must(err)

	for range 2 {
		result, err := dedup.Do(ctx, s.d, call("call the guest"), gormdedup.Effect(db, func(ctx context.Context, tx *gorm.DB) (Note, error) {
			note := Note{Text: "call the guest"}
			err := tx.Create(&note).Error
			return note, err
		}))
		must(err)
		fmt.Println(result.Value.Text, "replayed:", result.Replayed)
	}
	// Output:
	// call the guest replayed: false
	// call the guest replayed: true
}

// The order and its invoice are committed together. Any number of runs makes one of each.
func Example_gormTogether() {
	s, done := exampleService()
	defer done()
	ctx, d, order, invoice := context.Background(), s.d, call("order 17"), call("invoice 17")
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: s.db}), &gorm.Config{})
	must(err)

	for range 3 {
		err = gormdedup.Transaction(ctx, d, db, func(tx *gorm.DB) error {
			if _, err := gormdedup.DoTx(ctx, d, tx, order, func(ctx context.Context, tx *gorm.DB) (Note, error) {
				note := Note{Text: "order 17"}
				err := tx.Create(&note).Error
				return note, err
			}); err != nil {
				return err
			}
			result, err := gormdedup.DoTx(ctx, d, tx, invoice, func(ctx context.Context, tx *gorm.DB) (Note, error) {
				note := Note{Text: "invoice 17"}
				err := tx.Create(&note).Error
				return note, err
			})
			fmt.Println(result.Value.Text, "replayed:", result.Replayed)
			return err
		})
		must(err)
	}
	var notes int64
	must(db.Model(&Note{}).Count(&notes).Error)
	fmt.Println(notes, "notes")
	// Output:
	// invoice 17 replayed: false
	// invoice 17 replayed: true
	// invoice 17 replayed: true
	// 2 notes
}

// A call in a transaction that gorm began. The transaction is committed with a refusal in it.
func Example_gormTransaction() {
	s, done := exampleService()
	defer done()
	ctx, d, invoice := context.Background(), s.d, call("invoice 17")
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: s.db}), &gorm.Config{})
	must(err)

	var refused *dedup.RefusedError
	err = db.WithContext(context.WithoutCancel(ctx)).Transaction(func(tx *gorm.DB) error {
		_, err := gormdedup.DoTx(ctx, d, tx, invoice, func(ctx context.Context, tx *gorm.DB) (Note, error) {
			note := Note{Text: "invoice 17"}
			err := tx.Create(&note).Error
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
