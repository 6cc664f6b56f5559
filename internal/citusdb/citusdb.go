// Package citusdb makes databases that all nodes of a Citus cluster have.
package citusdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/faultproxy"
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

// JoinLock is the advisory lock on the coordinator under which nodes join. They send their roles to
// each other, and where those of two databases do so at once one of them fails.
const JoinLock = 0x64656475705f7467 // "dedup_tg"

// Version says which versions of Citus and PostgreSQL a node runs.
func Version(ctx context.Context, server string) (version string, err error) {
	err = on(ctx, server, func(conn *pgx.Conn) error {
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

	servers []string
	between []*faultproxy.Proxy
}

// Create makes a database on the servers of all nodes, the coordinator's first. Its name begins
// with prefix. [Database.Drop] removes it; where something fails, it is removed at once.
func Create(ctx context.Context, servers []string, prefix string) (*Database, error) {
	db := &Database{Name: prefix + strings.ToLower(rand.Text()[:12]), servers: servers}
	if err := db.create(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("creating database %s on the cluster: %w", db.Name, err), db.Drop(context.WithoutCancel(ctx)))
	}
	return db, nil
}

func (db *Database) create(ctx context.Context) error {
	for _, server := range db.servers {
		u, err := url.Parse(server)
		if err != nil {
			return fmt.Errorf("a URL in %s cannot be read", URLsVariable) // the parser's error would show the password
		}
		if err := exec(ctx, server, "CREATE DATABASE "+db.Name+" TEMPLATE template0"); err != nil {
			return err
		}
		u.Path = "/" + db.Name
		db.URLs = append(db.URLs, u.String())
	}
	// Unlocked where the connection ends.
	return on(ctx, db.servers[0], func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(JoinLock)); err != nil {
			return err
		}
		return Join(ctx, db.URLs)
	})
}

// Join makes a database that is on all nodes, the coordinator's first, one of Citus. The caller
// holds JoinLock.
func Join(ctx context.Context, urls []string) error {
	var join strings.Builder
	for i, at := range urls {
		if err := exec(ctx, at, "CREATE EXTENSION citus"); err != nil {
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
		fmt.Fprintf(&join, "SELECT %s('%s', %d);", add, config.Host, config.Port)
	}
	return exec(ctx, urls[0], join.String())
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
			if err := exec(ctx, node, sql); err != nil {
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
	for i, at := range db.URLs {
		errs = errors.Join(errs, RollBackPrepared(ctx, at), exec(ctx, db.servers[i], "DROP DATABASE IF EXISTS "+db.Name+" WITH (FORCE)"))
	}
	return errs
}

// RollBackPrepared ends the two-phase commits of a node's database that are half done.
func RollBackPrepared(ctx context.Context, at string) error {
	return on(ctx, at, func(conn *pgx.Conn) error {
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

func exec(ctx context.Context, at, sql string) error {
	return on(ctx, at, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// on does something on a connection of its own.
func on(ctx context.Context, at string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}
