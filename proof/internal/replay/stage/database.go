package stage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/internal/scratchdb"
	"github.com/tooldedup/dedup/proof/internal/world"
)

// Prefix begins the name of every database that a replay makes.
const Prefix = "dedup_replay_"

// Database is the database of one arm. On a cluster each domain has a schema of its own, of its
// name, which is distributed.
type Database struct {
	Name string
	// URLs are those of the database on each node; one where there is no cluster.
	URLs []string
	Pool *pgxpool.Pool // the driver's own way in, without a proxy
	// Between are the proxies through which the nodes of a cluster reach each other.
	Between []*faultproxy.Proxy

	nodes   []*pgxpool.Pool          // the ways in to each node; Pool is the first
	domains map[string]*pgxpool.Pool // the ways in to the schema of each domain; nil where there is no cluster
	drop    func(context.Context) error
}

// CreateDatabase makes a database with the migrations, the application and the
// data of rec. It is dropped by Drop, or at once where something fails.
func (s *Server) CreateDatabase(ctx context.Context, rec *recording.Recording) (*Database, error) {
	db, err := s.createEmpty(ctx)
	if err != nil {
		return nil, err
	}
	if err := db.fill(ctx, rec); err != nil {
		if dropErr := db.Drop(ctx); dropErr != nil {
			err = fmt.Errorf("%w (and %w)", err, dropErr)
		}
		return nil, err
	}
	return db, nil
}

func (s *Server) createEmpty(ctx context.Context) (*Database, error) {
	if s.nodes != nil {
		made, err := citusdb.Create(ctx, s.nodes, Prefix)
		if err != nil {
			return nil, err
		}
		between, err := made.Between(ctx)
		if err != nil {
			return nil, errors.Join(err, made.Drop(context.WithoutCancel(ctx)))
		}
		return &Database{Name: made.Name, URLs: made.URLs, Between: between, domains: map[string]*pgxpool.Pool{}, drop: made.Drop}, nil
	}
	made, err := scratchdb.Create(ctx, s.url, Prefix)
	if err != nil {
		return nil, err
	}
	return &Database{Name: made.Name, URLs: []string{made.URL}, drop: made.Drop}, nil
}

func (db *Database) fill(ctx context.Context, rec *recording.Recording) error {
	for _, at := range db.URLs {
		pool, err := pgxpool.New(ctx, at)
		if err != nil {
			return fmt.Errorf("connecting to database %s: %w", db.Name, err)
		}
		db.nodes = append(db.nodes, pool)
	}
	db.Pool = db.nodes[0]
	if !db.Schemas() {
		return furnish(ctx, db.Pool, rec)
	}
	for domain := range world.Tools() {
		if err := db.distribute(ctx, domain, rec); err != nil {
			return err
		}
	}
	return nil
}

// distribute makes the schema of a domain and lets Citus place it.
func (db *Database) distribute(ctx context.Context, domain string, rec *recording.Recording) error {
	config := db.Pool.Config()
	config.ConnConfig.RuntimeParams["search_path"] = domain
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connecting to database %s: %w", db.Name, err)
	}
	db.domains[domain] = pool
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{domain}.Sanitize()); err != nil {
		return fmt.Errorf("creating schema %s: %w", domain, err)
	}
	if err := furnish(ctx, pool, rec); err != nil {
		return err
	}
	if err := world.Untrack(ctx, pool); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, `SELECT citus_schema_distribute(current_schema()::regnamespace)`); err != nil {
		return fmt.Errorf("distributing schema %s: %w", domain, err)
	}
	return nil
}

// furnish makes all tables where a pool leads, with the data of rec.
func furnish(ctx context.Context, pool *pgxpool.Pool, rec *recording.Recording) error {
	if err := scratchdb.Migrate(ctx, pool.Config().ConnConfig); err != nil {
		return err
	}
	if err := world.Create(ctx, pool); err != nil {
		return err
	}
	return world.Load(ctx, pool, rec)
}

// Schemas reports whether each domain has a schema of its own.
func (db *Database) Schemas() bool { return db.domains != nil }

// Of is the driver's own way in to the tables of a domain.
func (db *Database) Of(domain string) *pgxpool.Pool {
	if pool := db.domains[domain]; pool != nil {
		return pool
	}
	return db.Pool
}

// Drop drops the database, together with any connections to it. It goes on
// after ctx has ended.
func (db *Database) Drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	for _, pool := range db.nodes {
		pool.Close()
	}
	for _, pool := range db.domains {
		pool.Close()
	}
	return db.drop(ctx)
}
