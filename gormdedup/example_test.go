package gormdedup_test

import (
	"context"
	"fmt"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/gormdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/sqldedup"
)

func ExampleEffect() {
	ctx := context.Background()
	pool, done := pgtest.Example(schema)
	defer done()
	d, err := dedup.New(pool, nil)
	must(err)
	conns := sqldedup.OpenDB(pool)
	defer func() { _ = conns.Close() }()
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: conns}), &gorm.Config{})
	must(err)

	call := dedup.Call{Scope: "acme", Tool: "add_note", Key: "plan 7, step 2"}
	for range 2 {
		result, err := dedup.Do(ctx, d, call, gormdedup.Effect(db, func(ctx context.Context, tx *gorm.DB) (Note, error) {
			note := Note{Text: "call the guest back"}
			err := tx.Create(&note).Error
			return note, err
		}))
		must(err)
		fmt.Println("note", result.Value.ID, "replayed:", result.Replayed)
	}
	// Output:
	// note 1 replayed: false
	// note 1 replayed: true
}

// The order and its invoice are two calls that commit together. Both writes are in effects: a write
// beside a call runs with every retry.
func ExampleTransaction() {
	ctx := context.Background()
	pool, done := pgtest.Example(schema)
	defer done()
	s, err := newService(pool, gorm.Config{})
	must(err)
	defer func() { must(s.close()) }()
	d, db := s.d, s.db

	for range 2 {
		err := gormdedup.Transaction(ctx, d, db, func(tx *gorm.DB) error {
			if _, err := gormdedup.DoTx(ctx, d, tx, call("order 17"), func(ctx context.Context, tx *gorm.DB) (Note, error) {
				note := Note{Text: "order 17"}
				err := tx.Create(&note).Error
				return note, err
			}); err != nil {
				return err
			}
			result, err := gormdedup.DoTx(ctx, d, tx, call("invoice 17"), func(ctx context.Context, tx *gorm.DB) (Note, error) {
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
	// 2 notes
}
