package orm_test

import (
	"context"
	"database/sql"
	_ "embed"
	"log"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/sqldedup"
)

// TestMain ignores a goroutine that gorm starts for each gorm.Open with PrepareStmt and never ends.
func TestMain(m *testing.M) {
	pgtest.Main(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

//go:embed schema.sql
var schema string

// Note is a row of notes, for gorm, bun and sqlx.
type Note struct {
	ID   int64  `json:"id" gorm:"primaryKey" bun:"id,pk,autoincrement" db:"id"`
	Text string `json:"text" db:"text"`
}

// service has one pool for everything, as a service does.
type service struct {
	pool *pgxpool.Pool
	db   *sql.DB // on the same pool
	d    *dedup.Deduper
}

func newService(ctx context.Context, pool *pgxpool.Pool) (*service, error) {
	if _, err := pool.Exec(ctx, schema); err != nil {
		return nil, err
	}
	d, err := dedup.New(pool, nil)
	return &service{pool: pool, db: sqldedup.OpenDB(pool), d: d}, err
}

// exampleService returns a service with its own database.
func exampleService() (s *service, done func()) {
	pool, drop := pgtest.Example()
	s, err := newService(context.Background(), pool)
	must(err)
	return s, func() {
		must(s.db.Close())
		drop()
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func call(key string) dedup.Call {
	return dedup.Call{Scope: "acme", Tool: "add_note", Key: key, Args: key}
}
