package gormdedup_test

import (
	"context"
	"log"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/sqldedup"
)

// TestMain ignores a goroutine that gorm starts for each gorm.Open with PrepareStmt and never ends.
func TestMain(m *testing.M) {
	pgtest.Main(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

const schema = `CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL UNIQUE)`

// Note is a row of notes.
type Note struct {
	ID   int64  `json:"id" gorm:"primaryKey"`
	Text string `json:"text"`
}

// service is a service with one pool.
type service struct {
	ctx  context.Context
	pool *pgxpool.Pool
	d    *dedup.Deduper
	db   *gorm.DB
}

func setup(t *testing.T, config gorm.Config) service {
	t.Helper()
	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), schema)
	require.NoError(t, err)
	s, err := newService(pool, config)
	require.NoError(t, err)
	t.Cleanup(func() { must(s.close()) })
	s.ctx = t.Context()
	return s
}

func newService(pool *pgxpool.Pool, config gorm.Config) (s service, err error) {
	s.pool, s.ctx = pool, context.Background()
	if s.d, err = dedup.New(pool, nil); err != nil {
		return s, err
	}
	config.Logger = logger.Discard
	s.db, err = gorm.Open(postgres.New(postgres.Config{Conn: sqldedup.OpenDB(pool)}), &config)
	return s, err
}

func (s service) close() error {
	db, err := s.db.DB()
	if err != nil {
		return err
	}
	return db.Close()
}

// notes returns the committed texts.
func (s service) notes(t *testing.T) (notes []string) {
	t.Helper()
	require.NoError(t, s.pool.QueryRow(s.ctx, `SELECT coalesce(array_agg(text ORDER BY id), '{}') FROM notes`).Scan(&notes))
	return notes
}

func (s service) records(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, s.pool.QueryRow(s.ctx, `SELECT count(*) FROM tool_dedup`).Scan(&n))
	return n
}

// create returns an effect that creates a note.
func create(text string) func(context.Context, *gorm.DB) (Note, error) {
	return func(_ context.Context, tx *gorm.DB) (Note, error) {
		note := Note{Text: text}
		err := tx.Create(&note).Error
		return note, err
	}
}

func call(key string) dedup.Call {
	return dedup.Call{Scope: "acme", Tool: "add_note", Key: key, Args: key}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
