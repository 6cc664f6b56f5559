package stage

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/migrations"
	"github.com/tooldedup/dedup/proof/internal/world"
)

// Prefix begins the name of every database that a replay makes.
const Prefix = "dedup_replay_"

// Database is the database of one arm.
type Database struct {
	Name string
	URL  string
	Pool *pgxpool.Pool // the driver's own way in, without a proxy

	server *Server
}

// CreateDatabase makes a database with the migrations, the application and the
// data of rec. It is dropped by Drop, or at once where something fails.
func (s *Server) CreateDatabase(ctx context.Context, rec *recording.Recording) (*Database, error) {
	name := Prefix + strings.ToLower(rand.Text()[:12])
	err := withConn(ctx, s.URL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("creating database %s: %w", name, err)
	}
	db := &Database{Name: name, server: s}
	if err := db.fill(ctx, rec); err != nil {
		if dropErr := db.Drop(ctx); dropErr != nil {
			err = fmt.Errorf("%w (and %w)", err, dropErr)
		}
		return nil, err
	}
	return db, nil
}

func (db *Database) fill(ctx context.Context, rec *recording.Recording) error {
	u, err := url.Parse(db.server.URL)
	if err != nil {
		return ErrURL
	}
	u.Path = "/" + db.Name
	db.URL = u.String()
	if db.Pool, err = pgxpool.New(ctx, db.URL); err != nil {
		return fmt.Errorf("connecting to database %s: %w", db.Name, err)
	}
	if err := migrate(ctx, db.Pool); err != nil {
		return err
	}
	if err := world.Create(ctx, db.Pool); err != nil {
		return err
	}
	return world.Load(ctx, db.Pool, rec)
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	handle := stdlib.OpenDBFromPool(pool)
	defer handle.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, handle, migrations.FS,
		goose.WithTableName(migrations.VersionTable))
	if err != nil {
		return fmt.Errorf("reading migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("applying migrations: %w", err)
	}
	return nil
}

// Drop drops the database, together with any connections to it. It goes on
// after ctx has ended.
func (db *Database) Drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if db.Pool != nil {
		db.Pool.Close()
	}
	err := withConn(ctx, db.server.URL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{db.Name}.Sanitize()+" WITH (FORCE)")
		return err
	})
	if err != nil {
		return fmt.Errorf("dropping database %s: %w", db.Name, err)
	}
	return nil
}

// TerminateBackend ends the backend of the application name that is inside a
// transaction and waits for its client, the latest to do so where there are
// several. It reports false where there is none.
func (db *Database) TerminateBackend(ctx context.Context, applicationName string) (bool, error) {
	rows, err := db.Pool.Query(ctx, `
		SELECT pg_terminate_backend(pid)
		FROM (
			SELECT pid
			FROM pg_stat_activity
			WHERE datname = current_database()
			  AND application_name = $1
			  AND state LIKE 'idle in transaction%'
			ORDER BY state_change DESC
			LIMIT 1) held`, applicationName)
	if err != nil {
		return false, fmt.Errorf("terminating a backend: %w", err)
	}
	signaled, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	if err != nil {
		return false, fmt.Errorf("terminating a backend: %w", err)
	}
	return len(signaled) == 1 && signaled[0], nil
}
