// Package scratchdb makes databases that are thrown away, with the project's migrations.
package scratchdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
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
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("the server's URL cannot be read") // the parser's error shows the password
	}
	db := &Database{Name: prefix + strings.ToLower(rand.Text()[:12]), server: server}
	u.Path = "/" + db.Name
	db.URL = u.String()
	if err := exec(ctx, server, "CREATE DATABASE "+pgx.Identifier{db.Name}.Sanitize()+" TEMPLATE template0"); err != nil {
		return nil, fmt.Errorf("creating database %s: %w", db.Name, err)
	}
	return db, nil
}

// Patiently runs a CREATE or DROP DATABASE, and again for half a minute while somebody is connected
// to the source or to the database, beyond the five seconds that the server waits by itself.
func Patiently(ctx context.Context, run func() error) error {
	for deadline := time.Now().Add(30 * time.Second); ; {
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

// objectInUse is the SQLSTATE of either.
const objectInUse = "55006"

// Drop removes the database, whoever is connected to it.
func (db *Database) Drop(ctx context.Context) error {
	if err := exec(ctx, db.server, "DROP DATABASE IF EXISTS "+pgx.Identifier{db.Name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("dropping database %s: %w", db.Name, err)
	}
	return nil
}

// Migrate applies the project's migrations where a configuration leads.
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

func exec(ctx context.Context, server, sql string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}
