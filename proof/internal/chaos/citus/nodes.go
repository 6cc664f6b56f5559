package citus

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/migrations"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
)

const (
	// URLsVariable names the nodes, the coordinator first, as for the tests.
	URLsVariable = "DEDUP_CITUS_URLS"
	// RestartVariable is a command that restarts the node whose number follows, from 0. Without
	// it no node is restarted.
	RestartVariable = "DEDUP_CITUS_RESTART"
)

// URLs are those of the nodes; none where there is no cluster.
func URLs() []string {
	urls := strings.FieldsFunc(os.Getenv(URLsVariable), func(r rune) bool { return r == ' ' || r == ',' })
	if len(urls) < 2 {
		return nil
	}
	return urls
}

// Missing says what is needed for the campaign, empty where nothing is missing.
func Missing() string {
	if URLs() == nil {
		return URLsVariable + " names no Citus cluster: set it to the URLs of its nodes, the coordinator's first"
	}
	return ""
}

// cluster is a database on all nodes. Clients reach the nodes, and the nodes reach the
// workers, through fault proxies.
type cluster struct {
	name    string
	urls    []string            // of the nodes' servers
	own     []*pgxpool.Pool     // to the database on each node, not through a proxy
	clients []*faultproxy.Proxy // before each node
	workers []*faultproxy.Proxy // before each worker
	version string
	// calm holds the faults between the nodes back while the books are settled, and disturbing,
	// which is held for reading by whoever ends backends or restarts a node, those.
	calm       atomic.Bool
	disturbing sync.RWMutex
}

// tenants are how many there are in both layouts.
const tenants = 8

// create makes the database. In a layout by schema each tenant has a distributed schema,
// else all share tables that are distributed by scope.
func create(ctx context.Context, urls []string, bySchema bool) (*cluster, error) {
	c := &cluster{name: "dedup_chaos_" + strings.ToLower(rand.Text()[:12]), urls: urls}
	err := c.prepare(ctx, bySchema)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing database %s on the cluster: %w", c.name, err), c.drop(ctx))
	}
	return c, nil
}

func (c *cluster) prepare(ctx context.Context, bySchema bool) error {
	var join strings.Builder
	for i, server := range c.urls {
		if err := execOn(ctx, server, "CREATE DATABASE "+c.name+" TEMPLATE template0"); err != nil {
			return err
		}
		u, err := url.Parse(server)
		if err != nil {
			return err
		}
		u.Path = "/" + c.name
		config, err := pgxpool.ParseConfig(u.String())
		if err != nil {
			return err
		}
		config.ConnConfig.RuntimeParams["application_name"] = lab.OwnName
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		c.own = append(c.own, pool)
		if _, err := pool.Exec(ctx, "CREATE EXTENSION citus"); err != nil {
			return err
		}
		client, err := faultproxy.New(u.String())
		if err != nil {
			return err
		}
		c.clients = append(c.clients, client)
		if i == 0 {
			fmt.Fprintf(&join, "SELECT citus_set_coordinator_host('%s', %s);", u.Hostname(), u.Port())
			continue
		}
		fmt.Fprintf(&join, "SELECT citus_add_node('%s', %s);", u.Hostname(), u.Port())
		worker, err := faultproxy.New(u.String())
		if err != nil {
			return err
		}
		c.workers = append(c.workers, worker)
	}
	for _, sql := range append([]string{join.String()}, layout(bySchema)...) {
		if _, err := c.own[0].Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	if err := c.own[0].QueryRow(ctx, "SELECT split_part(citus_version(), ' on ', 1) || ', PostgreSQL ' || current_setting('server_version')").Scan(&c.version); err != nil {
		return err
	}
	c.own[0].Reset() // which has a search_path
	return c.reachWorkersThroughProxies(ctx)
}

// layout makes the tables, and places them.
func layout(bySchema bool) []string {
	tables, err := migrations.SQL()
	if err != nil {
		panic(err) // it is embedded
	}
	if !bySchema {
		return []string{tables, migrations.CitusSQL("public", ""),
			`CREATE TABLE effects (tenant text COLLATE "C" NOT NULL, key text NOT NULL, run bigint NOT NULL)`,
			`SELECT create_distributed_table('effects', 'tenant', colocate_with => 'tool_dedup')`}
	}
	var all []string
	for n := range tenants {
		name := tenant(n)
		all = append(all, "CREATE SCHEMA "+name+"; SET search_path = "+name+"; "+tables+
			"CREATE TABLE effects (tenant text COLLATE \"C\" NOT NULL, key text NOT NULL, run bigint NOT NULL)",
			"SELECT citus_schema_distribute('"+name+"')")
	}
	return all
}

func tenant(n int) string { return fmt.Sprint("tenant", n) }

func (c *cluster) reachWorkersThroughProxies(ctx context.Context) error {
	for i, proxy := range c.workers {
		via, err := url.Parse(proxy.URL())
		if err != nil {
			return err
		}
		own, err := url.Parse(c.urls[i+1])
		if err != nil {
			return err
		}
		for _, node := range c.own {
			_, err := node.Exec(ctx, `UPDATE pg_dist_node SET nodename = $1, nodeport = $2::int WHERE nodeport = $3::int`, via.Hostname(), via.Port(), own.Port())
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// drop removes the database from every node, with two-phase commits that are half done.
func (c *cluster) drop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	for _, proxy := range append(c.clients, c.workers...) {
		proxy.Close()
	}
	var errs error
	for i, pool := range c.own {
		rows, err := pool.Query(ctx, `SELECT gid FROM pg_prepared_xacts WHERE database = current_database()`)
		if err == nil {
			var gids []string
			gids, err = pgx.CollectRows(rows, pgx.RowTo[string])
			for _, gid := range gids {
				_, _ = pool.Exec(ctx, "ROLLBACK PREPARED '"+gid+"'", pgx.QueryExecModeSimpleProtocol) // or somebody else has
			}
		}
		pool.Close()
		errs = errors.Join(errs, err, execOn(ctx, c.urls[i], "DROP DATABASE IF EXISTS "+c.name+" WITH (FORCE)"))
	}
	return errs
}

// complete has every node complete the two-phase commits that it began and that were cut, and
// waits until none is half done. A call whose COMMIT was cut between two nodes is answered, and
// nobody sees what it wrote before that.
func (c *cluster) complete(ctx context.Context) error {
	for {
		var errs error
		for _, node := range c.own {
			_, err := node.Exec(ctx, "SELECT recover_prepared_transactions()")
			errs = errors.Join(errs, err)
		}
		left, err := c.prepared(ctx)
		switch errs = errors.Join(errs, err); {
		case errs == nil && left == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%d two-phase commits are half done: %w", left, cmp.Or(errs, ctx.Err()))
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// prepared counts the two-phase commits that are half done.
func (c *cluster) prepared(ctx context.Context) (all int, err error) {
	for _, node := range c.own {
		var n int
		if err := node.QueryRow(ctx, `SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()`).Scan(&n); err != nil {
			return 0, err
		}
		all += n
	}
	return all, nil
}

func execOn(ctx context.Context, server, sql string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}
