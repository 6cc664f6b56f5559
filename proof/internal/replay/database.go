package replay

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/internal/scratchdb"
	"github.com/tooldedup/dedup/proof/internal/world"
)

// databasePrefix begins the name of every database that a replay makes.
const databasePrefix = "dedup_replay_"

// stopWait bounds stopping a server and dropping a database.
const stopWait = 20 * time.Second

// server is a Postgres server, given or started, or a Citus cluster.
type server struct {
	source string // which it is, on one line
	create func(context.Context) (*database, error)
	stop   func(context.Context) error
}

// openServer takes the server or the cluster of the command line, or finds or starts one.
func openServer(ctx context.Context, f *flags) (*server, error) {
	stay := func(context.Context) error { return nil }
	if f.citus {
		nodes := citusdb.URLs()
		version, err := citusdb.Version(ctx, nodes[0])
		if err != nil {
			return nil, fmt.Errorf("connecting to the coordinator: %w", err)
		}
		source := fmt.Sprintf("%s, a coordinator and %d workers", version, len(nodes)-1)
		return &server{source: source, create: onCluster(nodes), stop: stay}, nil
	}
	if f.databaseURL == "" {
		// With the server's own settings: what is shown must be what holds.
		started, err := pgserver.Start(ctx, &pgserver.Options{Durable: true})
		if err != nil {
			return nil, err
		}
		return &server{source: started.Source, create: onServer(started.URL), stop: started.Stop}, nil
	}
	u, err := url.Parse(f.databaseURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" { // the parser's error would show the password
		return nil, exit.Usage("--database-url: the database URL must begin with postgres://")
	}
	version, err := serverVersion(ctx, f.databaseURL)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", u.Redacted(), err)
	}
	source := fmt.Sprintf("PostgreSQL %s at %s", version, u.Redacted())
	return &server{source: source, create: onServer(f.databaseURL), stop: stay}, nil
}

func serverVersion(ctx context.Context, databaseURL string) (version string, err error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, `SELECT split_part(current_setting('server_version'), ' ', 1)`).Scan(&version)
	return version, err
}

func onServer(at string) func(context.Context) (*database, error) {
	return func(ctx context.Context) (*database, error) {
		made, err := scratchdb.Create(ctx, at, databasePrefix)
		if err != nil {
			return nil, err
		}
		return &database{name: made.Name, urls: []string{made.URL}, remove: made.Drop}, nil
	}
}

func onCluster(nodes []string) func(context.Context) (*database, error) {
	return func(ctx context.Context) (*database, error) {
		made, err := citusdb.Create(ctx, nodes, databasePrefix)
		if err != nil {
			return nil, err
		}
		between, err := made.Between(ctx)
		if err != nil {
			return nil, errors.Join(err, made.Drop(context.WithoutCancel(ctx)))
		}
		return &database{name: made.Name, urls: made.URLs, between: between, schemas: true, remove: made.Drop}, nil
	}
}

// database is the database of one arm.
type database struct {
	name string
	// urls are those of the database on each node; one where there is no cluster.
	urls []string
	// between are the proxies through which the nodes of a cluster reach each other.
	between []*faultproxy.Proxy
	// schemas says that each domain has a schema of its own, of its name, which is distributed.
	schemas bool

	nodes   []*pgxpool.Pool          // the driver's own ways in to each node, without a proxy
	domains map[string]*pgxpool.Pool // those to the tables of each domain
	remove  func(context.Context) error
}

// createDatabase makes a database with the migrations, the application and the
// data of rec. It is dropped by drop, or at once where something fails.
func (s *server) createDatabase(ctx context.Context, rec *recording.Recording) (*database, error) {
	db, err := s.create(ctx)
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
	if !db.schemas {
		for domain := range world.Tools() {
			db.domains[domain] = db.nodes[0]
		}
		return furnish(ctx, db.nodes[0], rec)
	}
	for domain := range world.Tools() {
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

// furnish makes all tables where a pool leads, with the data of rec.
func furnish(ctx context.Context, pool *pgxpool.Pool, rec *recording.Recording) error {
	if err := scratchdb.Migrate(ctx, pool.Config().ConnConfig); err != nil {
		return err
	}
	return world.Create(ctx, pool, rec)
}

// drop drops the database, together with any connections to it. It goes on
// after ctx has ended.
func (db *database) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	for _, pool := range db.nodes {
		pool.Close()
	}
	for _, pool := range db.domains {
		pool.Close() // again, where there is one for all
	}
	return db.remove(ctx)
}

// hasRecord reports whether a call of a domain has a record of its own.
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

// countRecords returns the number of records, of all domains.
func (db *database) countRecords(ctx context.Context) (all int, err error) {
	for _, pool := range db.domains {
		var count int
		if err := pool.QueryRow(ctx, `SELECT count(*) FROM tool_dedup`).Scan(&count); err != nil {
			return 0, fmt.Errorf("counting records: %w", err)
		}
		all += count
		if !db.schemas {
			break // all domains have one table
		}
	}
	return all, nil
}

// terminate ends the backend of the application name that is inside a
// transaction and waits for its client, the latest to do so where there are
// several. It reports false where there is none on any node.
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
