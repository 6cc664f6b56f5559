// Package citusdb makes databases on all nodes of a Citus cluster.
package citusdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/scratchdb"
)

// URLsVariable is the environment variable with the URLs of the nodes, the coordinator's first. The
// user must be a superuser.
const URLsVariable = "DEDUP_CITUS_URLS"

// URLs returns the URLs of the nodes, the coordinator's first, or nil without a cluster.
func URLs() []string {
	urls := strings.FieldsFunc(os.Getenv(URLsVariable), func(r rune) bool { return r == ' ' || r == ',' })
	if len(urls) < 2 {
		return nil
	}
	return urls
}

// Missing returns a message for tests that need a cluster. It is empty if there is one.
func Missing() string {
	if URLs() == nil {
		return URLsVariable + " names no Citus cluster: set it to the URLs of its nodes, the coordinator's first"
	}
	return ""
}

// Version returns the versions of Citus and PostgreSQL of a node.
func Version(ctx context.Context, server string) (version string, err error) {
	err = scratchdb.On(ctx, server, func(conn *pgx.Conn) error {
		const sql = `SELECT 'Citus ' || current_setting('citus.version') || ', PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)`
		return conn.QueryRow(ctx, sql).Scan(&version)
	})
	return version, err
}

// Database is a database on all nodes, joined by Citus.
type Database struct {
	Name string
	// URLs has the URL of the database on each node, the coordinator's first.
	URLs []string

	nodes   []*scratchdb.Database
	between []*faultproxy.Proxy
}

// Create makes a database on all nodes. servers has the URLs of the nodes, the coordinator's first.
// The name begins with prefix. The caller removes it with [Database.Drop]; after an error nothing
// is left.
func Create(ctx context.Context, servers []string, prefix string) (*Database, error) {
	db, err := Copy(ctx, servers, scratchdb.Name(prefix), "template0")
	if err != nil {
		return nil, err
	}
	err = scratchdb.On(ctx, servers[0], func(conn *pgx.Conn) error { // the end of the connection unlocks
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(scratchdb.TemplateLock)); err != nil {
			return err
		}
		return Join(ctx, db.URLs)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("joining database %s on the cluster: %w", db.Name, err), db.Drop(context.WithoutCancel(ctx)))
	}
	return db, nil
}

// Copy is [Create] from a template that exists on every node. A copy keeps the OIDs of its
// template, and Citus's metadata does not contain database names, so the copies are one distributed
// database.
func Copy(ctx context.Context, servers []string, name, template string) (*Database, error) {
	db := &Database{Name: name}
	for _, server := range servers {
		node, err := scratchdb.Copy(ctx, server, name, template)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("on the cluster: %w", err), db.Drop(context.WithoutCancel(ctx)))
		}
		db.nodes, db.URLs = append(db.nodes, node), append(db.URLs, node.URL)
	}
	return db, nil
}

// Join makes one Citus database of the databases on all nodes, the coordinator's first. The nodes
// send their roles to each other, which fails for two databases at once. The caller must hold
// [scratchdb.TemplateLock] on the coordinator.
func Join(ctx context.Context, urls []string) error {
	var nodes strings.Builder
	for i, at := range urls {
		if err := scratchdb.Exec(ctx, at, "CREATE EXTENSION citus"); err != nil {
			return err
		}
		config, err := pgx.ParseConfig(at)
		if err != nil {
			return err
		}
		add := "citus_add_node"
		if i == 0 {
			add = "citus_set_coordinator_host"
		}
		fmt.Fprintf(&nodes, "SELECT %s('%s', %d);", add, config.Host, config.Port)
	}
	return scratchdb.Exec(ctx, urls[0], nodes.String())
}

// Between starts a fault proxy in front of each worker, and makes the nodes connect through it.
// [Database.Drop] ends the proxies.
func (db *Database) Between(ctx context.Context) ([]*faultproxy.Proxy, error) {
	for _, worker := range db.URLs[1:] {
		proxy, err := faultproxy.New(worker)
		if err != nil {
			return nil, err
		}
		db.between = append(db.between, proxy)
		via, err := pgx.ParseConfig(proxy.URL())
		if err != nil {
			return nil, err
		}
		own, err := pgx.ParseConfig(worker)
		if err != nil {
			return nil, err
		}
		sql := fmt.Sprintf("UPDATE pg_dist_node SET nodename = '%s', nodeport = %d WHERE nodename = '%s' AND nodeport = %d", via.Host, via.Port, own.Host, own.Port)
		for _, node := range db.URLs {
			if err := scratchdb.Exec(ctx, node, sql); err != nil {
				return nil, fmt.Errorf("placing a proxy between the nodes: %w", err)
			}
		}
	}
	return db.between, nil
}

// Drop removes the database from every node. It first rolls back prepared transactions: Postgres
// does not drop a database that has one.
func (db *Database) Drop(ctx context.Context) error {
	for _, proxy := range db.between {
		proxy.Close()
	}
	var errs error
	for _, node := range db.nodes {
		errs = errors.Join(errs, rollBackPrepared(ctx, node.URL), node.Drop(ctx))
	}
	return errs
}

// rollBackPrepared rolls back the prepared transactions of a node's database.
func rollBackPrepared(ctx context.Context, at string) error {
	return scratchdb.On(ctx, at, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT gid FROM pg_prepared_xacts WHERE database = current_database()`)
		if err != nil {
			return err
		}
		gids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, gid := range gids {
			_, _ = conn.Exec(ctx, "ROLLBACK PREPARED '"+strings.ReplaceAll(gid, "'", "''")+"'", pgx.QueryExecModeSimpleProtocol) // it may have ended meanwhile
		}
		return err
	})
}
