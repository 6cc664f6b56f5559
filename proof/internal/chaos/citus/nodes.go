package citus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/migrations"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// cluster is a database on all nodes. Fault proxies stand between clients and nodes, and between
// nodes and workers.
type cluster struct {
	db       *citusdb.Database
	bySchema bool
	own      []*pgxpool.Pool     // to the database on each node, not through a proxy
	clients  []*faultproxy.Proxy // before each node
	workers  []*faultproxy.Proxy // before each worker
	// calm stops the faults between the nodes while the books are settled. A function that ends
	// backends or restarts a node holds disturbing for reading.
	calm       atomic.Bool
	disturbing sync.RWMutex
}

// tenants is the number of tenants in both layouts.
const tenants = 8

func tenant(n int) string { return fmt.Sprint("tenant", n) }

// schema is the layout of the tables: a distributed schema for each tenant, or one set of tables
// that is distributed by scope.
func (c *cluster) schema(n int) string {
	if c.bySchema {
		return tenant(n)
	}
	return "public"
}

// schemas are all layouts.
func (c *cluster) schemas() (all []string) {
	if !c.bySchema {
		return []string{"public"}
	}
	for n := range tenants {
		all = append(all, tenant(n))
	}
	return all
}

// create makes the database and its tables.
func create(ctx context.Context, urls []string, bySchema bool) (*cluster, error) {
	db, err := citusdb.Create(ctx, urls, "dedup_chaos_")
	if err != nil {
		return nil, err
	}
	c := &cluster{db: db, bySchema: bySchema}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing database %s on the cluster: %w", db.Name, err), c.drop(ctx))
	}
	return c, nil
}

func (c *cluster) prepare(ctx context.Context) error {
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
	tables, err := migrations.SQL()
	if err != nil {
		return err
	}
	tables += `CREATE TABLE effects (tenant text COLLATE "C" NOT NULL, key text NOT NULL, run bigint NOT NULL);`
	for _, schema := range c.schemas() {
		layout := []string{"CREATE SCHEMA " + schema + "; SET search_path = " + schema + "; " + tables, `SELECT citus_schema_distribute('` + schema + `')`}
		if !c.bySchema {
			layout = []string{tables, migrations.CitusSQL(schema, ""), `SELECT create_distributed_table('effects', 'tenant', colocate_with => 'tool_dedup')`}
		}
		for _, sql := range layout {
			if _, err := c.own[0].Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
	}
	c.own[0].Reset() // its connections have a search_path
	c.workers, err = c.db.Between(ctx)
	return err
}

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

// settle compares the answers with the effects. It does so without faults: a row that it removes
// must not be in doubt.
func (c *cluster) settle(ctx context.Context, ledger *lab.Ledger) (tally lab.Tally, err error) {
	c.disturbing.Lock()
	defer c.disturbing.Unlock()
	c.calm.Store(true)
	defer c.calm.Store(false)
	var tables []string
	for _, schema := range c.schemas() {
		tables = append(tables, schema+".effects")
	}
	if err := lab.Insist(ctx, func(ctx context.Context, _ int) error { return c.complete(ctx, tables) }); err != nil {
		return tally, fmt.Errorf("before settling the books: %w", err)
	}
	return ledger.Settle(ctx, c.own[0], tables...)
}

// complete has every node finish the two-phase commits that were cut, and fails while one is half
// done. After such a cut a call may be answered before its rows are visible. complete then locks
// all tables, which also makes Citus replace its cut connections.
func (c *cluster) complete(ctx context.Context, tables []string) (errs error) {
	for _, node := range c.own {
		_, err := node.Exec(ctx, "SELECT recover_prepared_transactions()")
		errs = errors.Join(errs, err)
	}
	left, err := c.prepared(ctx)
	if errs = errors.Join(errs, err); errs == nil && left > 0 {
		errs = fmt.Errorf("%d two-phase commits are half done", left)
	}
	for _, table := range tables {
		if errs == nil {
			_, errs = c.own[0].Exec(ctx, `BEGIN; SET LOCAL lock_timeout = '5s'; LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE; COMMIT`, pgx.QueryExecModeSimpleProtocol)
		}
	}
	if errs != nil {
		c.own[0].Reset()
	}
	return errs
}

// prepared counts the half-done two-phase commits.
func (c *cluster) prepared(ctx context.Context) (all int, err error) {
	for _, node := range c.own {
		var n int
		nodeErr := node.QueryRow(ctx, `SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()`).Scan(&n)
		all, err = all+n, cmp.Or(err, nodeErr)
	}
	return all, err
}
