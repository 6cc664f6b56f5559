package citus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/migrations"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// RestartVariable is a command that restarts the node whose number follows, from 0. Without
// it no node is restarted.
const RestartVariable = "DEDUP_CITUS_RESTART"

// cluster is a database on all nodes. Clients reach the nodes, and the nodes reach the
// workers, through fault proxies.
type cluster struct {
	db      *citusdb.Database
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
	version, err := citusdb.Version(ctx, urls[0])
	if err != nil {
		return nil, err
	}
	db, err := citusdb.Create(ctx, urls, "dedup_chaos_")
	if err != nil {
		return nil, err
	}
	c := &cluster{db: db, version: version}
	if err := c.prepare(ctx, bySchema); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing database %s on the cluster: %w", db.Name, err), c.drop(ctx))
	}
	return c, nil
}

func (c *cluster) prepare(ctx context.Context, bySchema bool) error {
	for _, at := range c.db.URLs {
		pool, err := lab.OwnPool(ctx, at)
		if err != nil {
			return err
		}
		c.own = append(c.own, pool)
		client, err := faultproxy.New(at)
		if err != nil {
			return err
		}
		c.clients = append(c.clients, client)
	}
	for _, sql := range layout(bySchema) {
		if _, err := c.own[0].Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	c.own[0].Reset() // which has a search_path
	var err error
	c.workers, err = c.db.Between(ctx)
	return err
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

// drop removes the database from every node.
func (c *cluster) drop(ctx context.Context) error {
	for _, proxy := range c.clients {
		proxy.Close()
	}
	for _, pool := range c.own {
		pool.Close()
	}
	return c.db.Drop(context.WithoutCancel(ctx))
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
		lab.Pause(ctx, 100*time.Millisecond)
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
