package replay

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/internal/scratchdb"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
)

// databasePrefix begins the names of a replay's databases.
const databasePrefix = "dedup_replay_"

// stopWait bounds the stop of a server and the drop of a database.
const stopWait = 20 * time.Second

// openServer takes the server of the command line, or finds or starts one. A cluster has no single
// URL.
func openServer(ctx context.Context, f *flags) (*pgserver.Server, error) {
	if f.citus {
		nodes := citusdb.URLs()
		version, err := citusdb.Version(ctx, nodes[0])
		if err != nil {
			return nil, fmt.Errorf("connecting to the coordinator: %w", err)
		}
		return &pgserver.Server{Source: fmt.Sprintf("%s, a coordinator and %d workers", version, len(nodes)-1)}, nil
	}
	if f.databaseURL == "" {
		// The server keeps its own settings: the replay must hold with them.
		return pgserver.Start(ctx, &pgserver.Options{Durable: true})
	}
	u, err := url.Parse(f.databaseURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" { // the parser's error would show the password
		return nil, exit.Usage("--database-url: the database URL must begin with postgres://")
	}
	conn, err := pgx.Connect(ctx, f.databaseURL)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", u.Redacted(), err)
	}
	version, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	return &pgserver.Server{URL: f.databaseURL, Source: fmt.Sprintf("PostgreSQL %s at %s", version, u.Redacted())}, conn.Close(ctx)
}

// createEmpty makes a database on a server, or on all nodes of the cluster.
func createEmpty(ctx context.Context, s *pgserver.Server) (*database, error) {
	if s.URL != "" {
		made, err := scratchdb.Create(ctx, s.URL, databasePrefix)
		if err != nil {
			return nil, err
		}
		return &database{name: made.Name, urls: []string{made.URL}, remove: made.Drop}, nil
	}
	made, err := citusdb.Create(ctx, citusdb.URLs(), databasePrefix)
	if err != nil {
		return nil, err
	}
	between, err := made.Between(ctx)
	if err != nil {
		return nil, errors.Join(err, made.Drop(context.WithoutCancel(ctx)))
	}
	return &database{name: made.Name, urls: made.URLs, between: between, schemas: true, remove: made.Drop}, nil
}

// database is the database of one arm.
type database struct {
	name string
	// urls are the URLs of the database on each node, one without a cluster.
	urls []string
	// between are the proxies between the nodes of a cluster.
	between []*faultproxy.Proxy
	// schemas is true if each domain has its own distributed schema, with the domain's name.
	schemas bool

	nodes   []*pgxpool.Pool          // the driver's pools of each node, without a proxy
	domains map[string]*pgxpool.Pool // the driver's pools of each domain's tables
	remove  func(context.Context) error
}

// createDatabase makes a database with the migrations and the ledger of rec. It drops the database
// if a step fails.
func createDatabase(ctx context.Context, s *pgserver.Server, rec *recording.Recording) (*database, error) {
	db, err := createEmpty(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := db.fill(ctx, rec); err != nil {
		return nil, errors.Join(fmt.Errorf("filling database %s: %w", db.name, err), db.drop(ctx))
	}
	return db, nil
}

func (db *database) fill(ctx context.Context, rec *recording.Recording) error {
	for _, at := range db.urls {
		pool, err := pgxpool.New(ctx, at)
		if err != nil {
			return err
		}
		db.nodes = append(db.nodes, pool)
	}
	db.domains = map[string]*pgxpool.Pool{}
	domains := ledger.Tools(rec)
	if !db.schemas {
		for domain := range domains {
			db.domains[domain] = db.nodes[0]
		}
		return furnish(ctx, db.nodes[0], rec)
	}
	for domain := range domains {
		config := db.nodes[0].Config()
		config.ConnConfig.RuntimeParams["search_path"] = domain
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		db.domains[domain] = pool
		if _, err := pool.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{domain}.Sanitize()); err != nil {
			return err
		}
		if err := furnish(ctx, pool, rec); err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, `SELECT citus_schema_distribute(current_schema()::regnamespace)`); err != nil {
			return fmt.Errorf("distributing schema %s: %w", domain, err)
		}
	}
	return nil
}

// furnish makes all tables in a pool's schema, with the data of rec.
func furnish(ctx context.Context, pool *pgxpool.Pool, rec *recording.Recording) error {
	if err := scratchdb.Migrate(ctx, pool.Config().ConnConfig); err != nil {
		return err
	}
	return ledger.Create(ctx, pool, rec)
}

// drop drops the database and closes its connections, even after ctx has ended.
func (db *database) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	for _, pool := range db.nodes {
		pool.Close()
	}
	for _, pool := range db.domains {
		pool.Close() // a second Close, if one pool serves all
	}
	return db.remove(ctx)
}

// hasRecord reports whether a call of a domain has its own record.
func (db *database) hasRecord(ctx context.Context, domain, scope, tool, key string) (found bool, err error) {
	err = db.domains[domain].QueryRow(ctx, `
		SELECT EXISTS (
			SELECT FROM tool_dedup
			WHERE scope = $1 AND tool = $2 AND key = $3)`, scope, tool, key).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("looking for a record: %w", err)
	}
	return found, nil
}

// countRecords returns the number of records in all domains.
func (db *database) countRecords(ctx context.Context) (all int, err error) {
	for _, pool := range db.domains {
		var count int
		if err := pool.QueryRow(ctx, `SELECT count(*) FROM tool_dedup`).Scan(&count); err != nil {
			return 0, fmt.Errorf("counting records: %w", err)
		}
		all += count
		if !db.schemas {
			break // all domains share one table
		}
	}
	return all, nil
}

// terminate ends a backend of the application name that is inside a transaction and waits for its
// client. Of several it ends the latest waiter. It returns false if no node has one.
func (db *database) terminate(ctx context.Context, applicationName string) (done bool, err error) {
	for _, node := range db.nodes {
		err := node.QueryRow(ctx, `
			SELECT COALESCE(bool_or(pg_terminate_backend(pid)), false)
			FROM (
				SELECT pid
				FROM pg_stat_activity
				WHERE datname = current_database()
				  AND application_name = $1
				  AND state LIKE 'idle in transaction%'
				ORDER BY state_change DESC
				LIMIT 1) held`, applicationName).Scan(&done)
		if err != nil {
			return false, fmt.Errorf("terminating a backend: %w", err)
		}
		if done {
			return true, nil
		}
	}
	return false, nil
}
