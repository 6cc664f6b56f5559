// The program with gorm of docs/guide.md: run it twice.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/gormdedup"
	"github.com/tooldedup/dedup/sqldedup"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

type Reminder struct {
	ID   int64
	Text string
}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	must(err)
	d, err := dedup.New(pool, nil)
	must(err)
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: sqldedup.OpenDB(pool)}), &gorm.Config{})
	must(err)
	must(db.AutoMigrate(&Reminder{}))

	key, err := dedup.KeyFromIntent("guest 17", "call back")
	must(err)
	call := dedup.Call{Scope: "acme", Tool: "add_reminder", Key: key, Args: "call the guest back"}
	result, err := dedup.Do(ctx, d, call, gormdedup.Effect(db, func(ctx context.Context, tx *gorm.DB) (Reminder, error) {
		reminder := Reminder{Text: "call the guest back"}
		err := tx.Create(&reminder).Error
		return reminder, err
	}))
	must(err)
	fmt.Println("reminder", result.Value.ID, "replayed:", result.Replayed)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
