// Package scratchdb makes temporary databases, and the templates that they are copied from.
package scratchdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/tooldedup/dedup/migrations"
)

// Database is a database of one server.
type Database struct {
	Name, URL string

	server string
}

// Create makes an empty database whose name begins with prefix.
func Create(ctx context.Context, server, prefix string) (*Database, error) {
	return Copy(ctx, server, Name(prefix), "template0")
}

// Name returns a new random name.
func Name(prefix string) string { return prefix + strings.ToLower(rand.Text()[:12]) }

// Copy makes a database as a copy of a template.
func Copy(ctx context.Context, server, name, template string) (*Database, error) {
	at, err := URL(server, name)
	if err == nil {
		err = Exec(ctx, server, "CREATE DATABASE "+quoted(name)+" TEMPLATE "+quoted(template))
	}
	if err != nil {
		return nil, fmt.Errorf("creating database %s: %w", name, err)
	}
	return &Database{Name: name, URL: at, server: server}, nil
}

// URL returns the URL of a database of a server.
func URL(server, database string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New("the server's URL cannot be read") // the parser's error shows the password
	}
	u.Path = "/" + database
	return u.String(), nil
}

// Drop removes the database and ends its connections.
func (db *Database) Drop(ctx context.Context) error { return drop(ctx, db.server, db.Name) }

func drop(ctx context.Context, server, name string) error {
	if err := Exec(ctx, server, "DROP DATABASE IF EXISTS "+quoted(name)+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("dropping database %s: %w", name, err)
	}
	return nil
}

// TemplateLock is the advisory lock for making a template, and for joining the nodes of a Citus
// cluster. Advisory locks belong to a database: all processes take it in that of the server's URL.
const TemplateLock = 0x64656475705f7467 // "dedup_tg"

// Template makes a template database with this name on each of the servers, unless the one on the
// first server is complete. It drops an incomplete one, which a killed process left behind. A
// complete template allows no connections: CREATE DATABASE fails while its source has any.
func Template(ctx context.Context, servers []string, name string, fill func(urls []string) error) error {
	return On(ctx, servers[0], func(conn *pgx.Conn) error { // the end of the connection unlocks
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(TemplateLock)); err != nil {
			return fmt.Errorf("waiting for the lock: %w", err)
		}
		var complete bool
		err := conn.QueryRow(ctx, `
			SELECT datistemplate
			FROM pg_database
			WHERE datname = $1`, name).Scan(&complete)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("looking for the template: %w", err)
		}
		if complete {
			return nil
		}
		return makeTemplate(ctx, servers, name, fill)
	})
}

func makeTemplate(ctx context.Context, servers []string, name string, fill func(urls []string) error) error {
	var urls []string
	for _, server := range servers {
		if err := drop(ctx, server, name); err != nil {
			return err
		}
	}
	for _, server := range servers {
		db, err := Copy(ctx, server, name, "template0")
		if err != nil {
			return err
		}
		urls = append(urls, db.URL)
	}
	if err := fill(urls); err != nil {
		return err
	}
	for _, server := range slices.Backward(servers) {
		if err := Exec(ctx, server, "ALTER DATABASE "+quoted(name)+" ALLOW_CONNECTIONS false IS_TEMPLATE true"); err != nil {
			return fmt.Errorf("marking the template as complete: %w", err)
		}
		if len(servers) == 1 {
			continue
		}
		// Processes of Citus stay connected.
		if err := Exec(ctx, server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'"); err != nil {
			return err
		}
	}
	return nil
}

// Migrate applies the project's migrations to a database.
func Migrate(ctx context.Context, config *pgx.ConnConfig) error {
	db := stdlib.OpenDB(*config)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithTableName(migrations.VersionTable))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("applying the migrations: %w", err)
	}
	return nil
}

// On opens a connection, calls do, and closes the connection.
func On(ctx context.Context, at string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}

// Exec runs statements on a new connection.
func Exec(ctx context.Context, at, sql string) error {
	return On(ctx, at, func(conn *pgx.Conn) error {
		return Patiently(ctx, func() error {
			_, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
			return err
		})
	})
}

// patience is how long Patiently tries. A busy server takes long to end sessions, and a clean-up
// that gives up leaves the database behind.
const patience = 5 * time.Minute

// Patiently runs a CREATE or DROP DATABASE, and runs it again while the template or the database
// has other connections. The server itself waits five seconds for them.
func Patiently(ctx context.Context, run func() error) error {
	for deadline := time.Now().Add(patience); ; {
		err := run()
		var pgErr *pgconn.PgError
		if err == nil || !errors.As(err, &pgErr) || pgErr.Code != objectInUse || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// objectInUse is the SQLSTATE of both statements if there are other connections.
const objectInUse = "55006"

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
