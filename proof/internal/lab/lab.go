// Package lab is the place of the campaigns. It has a server, databases with the schema and a table
// of effects, faults on the way to them, clients with their ways to call, and the books.
package lab

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/internal/scratchdb"
)

// Lab has its own server or the one that DEDUP_DATABASE_URL names.
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
		l.Version, _, _ = strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
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
	// Proxy is the way to the database, if there is one.
	Proxy *faultproxy.Proxy

	scratch *scratchdb.Database
}

// schema has the table of effects. The sequence counts all runs of effects, also those that were
// rolled back.
const schema = `
CREATE TABLE effects (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL, run bigint NOT NULL);
CREATE SEQUENCE runs;`

// Create makes a database. Drop removes it.
func (l *Lab) Create(ctx context.Context) (*Database, error) {
	made, err := scratchdb.Create(ctx, l.Server.URL, "dedup_chaos_")
	if err != nil {
		return nil, err
	}
	db := &Database{Name: made.Name, URL: made.URL, scratch: made}
	if db.Pool, err = OwnPool(ctx, db.URL); err == nil {
		err = scratchdb.Migrate(ctx, db.Pool.Config().ConnConfig)
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

// CreateBehind makes a database behind a proxy that applies faults to COMMITs.
func (l *Lab) CreateBehind(ctx context.Context, seed uint64) (*Database, error) {
	db, err := l.Create(ctx)
	if err != nil {
		return nil, err
	}
	if db.Proxy, err = faultproxy.New(db.URL); err != nil {
		_ = db.Drop(ctx)
		return nil, err
	}
	ArmCommits(db.Proxy, seed)
	return db, nil
}

// TakeFaults moves the proxy's counts of applied faults into an arm.
func (db *Database) TakeFaults(a *Arm) {
	for kind, n := range db.Proxy.Snapshot().Faults {
		a.Fault(string(kind), n)
	}
	db.Proxy.Reset()
}

// OwnName is the application_name of the lab's own connections. No campaign breaks these.
const OwnName = "proof chaos, the books"

// OwnPool opens a pool of the lab's own connections.
func OwnPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = OwnName
	return pgxpool.NewWithConfig(ctx, config)
}

// Drop removes the database and closes its connections.
func (db *Database) Drop(ctx context.Context) error {
	if db.Proxy != nil {
		db.Proxy.Close()
	}
	if db.Pool != nil {
		db.Pool.Close()
	}
	return db.scratch.Drop(context.WithoutCancel(ctx))
}
