// Package citusdb makes databases that all nodes of a Citus cluster have.
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

// URLsVariable names the nodes, the coordinator first, as for the tests. Their user is a superuser.
const URLsVariable = "DEDUP_CITUS_URLS"

// URLs are those of the nodes; none where there is no cluster.
func URLs() []string {
	urls := strings.FieldsFunc(os.Getenv(URLsVariable), func(r rune) bool { return r == ' ' || r == ',' })
	if len(urls) < 2 {
		return nil
	}
	return urls
}

// Missing says what is needed, empty where nothing is missing.
func Missing() string {
	if URLs() == nil {
		return URLsVariable + " names no Citus cluster: set it to the URLs of its nodes, the coordinator's first"
	}
	return ""
}

// Version says which versions of Citus and PostgreSQL a node runs.
func Version(ctx context.Context, server string) (version string, err error) {
	err = scratchdb.On(ctx, server, func(conn *pgx.Conn) error {
		const sql = `SELECT 'Citus ' || current_setting('citus.version') || ', PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)`
		return conn.QueryRow(ctx, sql).Scan(&version)
	})
	return version, err
}

// Database is a database that all nodes have and that they know each other in.
type Database struct {
	Name string
	// URLs are those of the database on each node, the coordinator's first.
	URLs []string

	nodes   []*scratchdb.Database
	between []*faultproxy.Proxy
}

// Create makes a database on the servers of all nodes, the coordinator's first. Its name begins
// with prefix. [Database.Drop] removes it; where something fails, it is removed at once.
func Create(ctx context.Context, servers []string, prefix string) (*Database, error) {
	db, err := Copy(ctx, servers, scratchdb.Name(prefix), "template0")
	if err != nil {
		return nil, err
	}
	err = scratchdb.On(ctx, servers[0], func(conn *pgx.Conn) error { // unlocked where the connection ends
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

// Copy makes a database on all nodes as copies of a template that each of them has. A copy has the
// OIDs of its template, and no node's name of a database: so the copies on all nodes are one
// distributed database. Otherwise it is as [Create].
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

// Join makes a database that is on all nodes, the coordinator's first, one of Citus. The nodes send their roles to
// each other, and where those of two databases do so at once one of them fails: the caller holds
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

// Between starts a fault proxy before each worker, through which the nodes reach it from then on.
// [Database.Drop] ends them.
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

// Drop removes the database from every node, with two-phase commits that are half done: a
// database that has one cannot be dropped.
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

// rollBackPrepared ends the two-phase commits of a node's database that are half done.
func rollBackPrepared(ctx context.Context, at string) error {
	return scratchdb.On(ctx, at, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT gid FROM pg_prepared_xacts WHERE database = current_database()`)
		if err != nil {
			return err
		}
		gids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, gid := range gids {
			_, _ = conn.Exec(ctx, "ROLLBACK PREPARED '"+strings.ReplaceAll(gid, "'", "''")+"'", pgx.QueryExecModeSimpleProtocol) // or somebody else has
		}
		return err
	})
}
