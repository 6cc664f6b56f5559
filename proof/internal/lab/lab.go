// Package lab is where campaigns take place: a server, databases with the schema and a table of
// effects, faults on the way to them, clients and their ways to call, worker processes, and the books.
// A campaign's arm is a [Trial]; what came of all arms is a [Score].
package lab

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/internal/scratchdb"
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
	version, err := ServerVersion(ctx, server.URL)
	if err != nil {
		_ = server.Stop(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return &Lab{Server: server, Version: version}, nil
}

// ServerVersion asks a server for its version, such as "15.18".
func ServerVersion(ctx context.Context, url string) (version string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	version, _, _ = strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	return version, conn.Close(ctx)
}

// Close stops the server if Open started it.
func (l *Lab) Close(ctx context.Context) error { return l.Server.Stop(context.WithoutCancel(ctx)) }

// Database is a fresh database with tool_dedup and effects.
type Database struct {
	Name, URL string
	Pool      *pgxpool.Pool // not through a proxy
	// Proxy is on the way to it; nil where there is none.
	Proxy *faultproxy.Proxy

	scratch *scratchdb.Database
	clients []*Client
}

// schema is what effects are made of. The sequence counts the runs of effects,
// those that were rolled back included.
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

// Break puts a proxy on the way to the database that applies faults to COMMITs. Clients that are opened later go
// through it. through makes another URL of the database's, that of a pooler; nil makes none.
func (db *Database) Break(seed uint64, through func(string) (string, error)) (err error) {
	to := db.URL
	if through != nil {
		to, err = through(to)
	}
	if err == nil {
		db.Proxy, err = faultproxy.New(to)
	}
	if err == nil {
		ArmCommits(db.Proxy, seed)
	}
	return err
}

// Client opens a client with a pool of its own, by way of the proxy where there is one. Drop closes it.
func (db *Database) Client(ctx context.Context, conns int32, mode pgx.QueryExecMode, opts *dedup.Options) (*Client, error) {
	url := db.URL
	if db.Proxy != nil {
		url = db.Proxy.URL()
	}
	c, err := OpenClient(ctx, url, conns, mode, opts)
	if err == nil {
		db.clients = append(db.clients, c)
	}
	return c, err
}

// TakeFaults moves the counts of the faults that the proxy has applied into an arm's.
func (db *Database) TakeFaults(a *Arm) {
	if db.Proxy == nil {
		return
	}
	for kind, n := range db.Proxy.Snapshot().Faults {
		a.Fault(string(kind), n)
	}
	db.Proxy.Reset()
}

// Terminate ends the server's side of the first connection to the database of own that which picks: a condition on
// pg_stat_activity and an order. It reports false where there is none.
func Terminate(ctx context.Context, own *pgxpool.Pool, which string, args ...any) (ended bool, err error) {
	err = own.QueryRow(ctx, `SELECT COALESCE(bool_or(pg_terminate_backend(pid)), false) FROM (
		SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND `+which+` LIMIT 1) AS victim`, args...).Scan(&ended)
	return ended, err
}

// TerminateAny ends one at random that is at work and not the lab's.
func TerminateAny(ctx context.Context, own *pgxpool.Pool) (ended bool, err error) {
	return Terminate(ctx, own, `application_name <> $1 AND state <> 'idle' AND backend_type = 'client backend' ORDER BY random()`, OwnName)
}

// OwnName is the application_name of the lab's own connections, which no campaign
// is to break.
const OwnName = "proof chaos, the books"

// OwnPool opens a pool of connections that have it.
func OwnPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = OwnName
	return pgxpool.NewWithConfig(ctx, config)
}

// Drop removes the database, whoever is connected to it.
func (db *Database) Drop(ctx context.Context) error {
	for _, c := range db.clients {
		c.Pool.Close() // perhaps again
	}
	if db.Proxy != nil {
		db.Proxy.Close()
	}
	if db.Pool != nil {
		db.Pool.Close()
	}
	return db.scratch.Drop(context.WithoutCancel(ctx))
}
