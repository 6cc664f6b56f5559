// Package lab is where campaigns take place: a server, databases with the
// schema and a table of effects, and the books that are kept of answers.
package lab

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

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/migrations"
)

// Lab has a server of its own or the one that DEDUP_DATABASE_URL names.
type Lab struct {
	Server  *pgserver.Server
	Version string // of PostgreSQL, such as "15.18"
}

// Open finds or starts a server.
func Open(ctx context.Context, opts *pgserver.Options) (*Lab, error) {
	server, err := pgserver.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	l := &Lab{Server: server}
	conn, err := pgx.Connect(ctx, server.URL)
	if err == nil {
		l.Version = conn.PgConn().ParameterStatus("server_version")
		l.Version, _, _ = strings.Cut(l.Version, " ")
		err = conn.Close(ctx)
	}
	if err != nil {
		_ = server.Stop(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return l, nil
}

// Close stops the server if Open started it.
func (l *Lab) Close(ctx context.Context) error { return l.Server.Stop(context.WithoutCancel(ctx)) }

// Database is a fresh database with tool_dedup and effects.
type Database struct {
	Name, URL string
	Pool      *pgxpool.Pool // not through a proxy

	lab *Lab
}

// schema is what effects are made of. The sequence counts the runs of effects,
// those that were rolled back included.
const schema = `
CREATE TABLE effects (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL, run bigint NOT NULL);
CREATE SEQUENCE runs;`

// Effect is the statement of an effect: it takes the key, and its answer is the
// number of the run that was committed.
const Effect = `INSERT INTO public.effects (key, run) VALUES ($1, nextval('public.runs')) RETURNING run`

// Create makes a database. Drop removes it.
func (l *Lab) Create(ctx context.Context) (*Database, error) {
	db := &Database{Name: "dedup_chaos_" + strings.ToLower(rand.Text()[:12]), lab: l}
	if err := l.exec(ctx, "CREATE DATABASE "+db.Name+" TEMPLATE template0"); err != nil {
		return nil, fmt.Errorf("creating a database: %w", err)
	}
	u, err := url.Parse(l.Server.URL)
	if err == nil {
		u.Path = "/" + db.Name
		db.URL = u.String()
		db.Pool, err = openOwn(ctx, db.URL)
	}
	if err == nil {
		err = db.migrate(ctx)
	}
	if err == nil {
		_, err = db.Pool.Exec(ctx, schema)
	}
	if err != nil {
		_ = db.Drop(ctx)
		return nil, fmt.Errorf("preparing database %s: %w", db.Name, err)
	}
	return db, nil
}

// OwnName is the application_name of the lab's own connections, which no campaign
// is to break.
const OwnName = "proof chaos, the books"

func openOwn(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = OwnName
	return pgxpool.NewWithConfig(ctx, config)
}

func (db *Database) migrate(ctx context.Context) error {
	handle := stdlib.OpenDBFromPool(db.Pool)
	defer handle.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, handle, migrations.FS, goose.WithTableName(migrations.VersionTable))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// Drop removes the database, whoever is connected to it.
func (db *Database) Drop(ctx context.Context) error {
	if db.Pool != nil {
		db.Pool.Close()
	}
	return db.lab.exec(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+db.Name+" WITH (FORCE)")
}

func (l *Lab) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, l.Server.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}
