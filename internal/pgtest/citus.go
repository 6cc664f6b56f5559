package pgtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/scratchdb"
	"github.com/tooldedup/dedup/migrations"
)

// Citus is a database of a test that all nodes of a Citus cluster have, with the project's
// migrations, distributed.
type Citus struct {
	// Nodes are the database on each node, the coordinator first.
	Nodes []*DB
}

// Coordinator is the database on the coordinator.
func (c *Citus) Coordinator() *DB { return c.Nodes[0] }

// NewCitus is [New] on the nodes that DEDUP_CITUS_URLS names. It skips the test where the
// variable is not set.
func NewCitus(tb testing.TB) *Citus {
	tb.Helper()
	if missing := citusdb.Missing(); missing != "" {
		tb.Skip(missing + "; see docs/sharded.md")
	}
	db, err := citus.create(tb.Context(), tb.Name())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), dropWait)
		defer cancel()
		if err := db.drop(ctx); err != nil {
			tb.Error(err)
		}
	})
	return db
}

// citus are the nodes that the tests of this process share.
var citus = &citusNodes{urls: citusdb.URLs()}

// citusNodes make databases on all nodes, as copies of a template that each of them has. A
// copy has the OIDs of its template, and no node's name of a database: so the copies on all
// nodes are one distributed database.
type citusNodes struct {
	urls []string

	once     sync.Once
	nodes    []*cluster
	template string
	err      error
}

// open connects to the nodes and makes the template.
func (c *citusNodes) open(ctx context.Context) error {
	c.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
		defer cancel()
		for _, url := range c.urls {
			config, err := pgxpool.ParseConfig(url)
			if err == nil {
				config.MaxConns = adminConns
				var admin *pgxpool.Pool
				if admin, err = pgxpool.NewWithConfig(ctx, config); err == nil {
					c.nodes = append(c.nodes, &cluster{opened: true, admin: admin})
				}
			}
			if err != nil {
				c.err = fmt.Errorf("reading a URL in %s: %w", citusdb.URLsVariable, err)
				return
			}
		}
		if c.template, c.err = templateName(migrations.FS); c.err == nil {
			sum := sha256.Sum256([]byte(strings.Join(c.urls, " ") + migrations.CitusSQL("public", "")))
			c.template += fmt.Sprintf("_citus_%x", sum[:4])
			if c.err = makeTemplate(ctx, c.nodes[0].admin, c.template, c.buildTemplate); c.err != nil {
				c.err = fmt.Errorf("making the template on the Citus cluster: %w", c.err)
			}
		}
	})
	return c.err
}

func (c *citusNodes) close() {
	for _, node := range c.nodes {
		node.admin.Close()
	}
}

// buildTemplate makes the template on every node. On the coordinator it is completed last.
func (c *citusNodes) buildTemplate(ctx context.Context, _ *pgx.Conn, name string) error {
	quoted := pgx.Identifier{name}.Sanitize()
	var urls []string
	for i, node := range c.nodes {
		for _, sql := range []string{"DROP DATABASE IF EXISTS " + quoted + " WITH (FORCE)", "CREATE DATABASE " + quoted + " TEMPLATE template0"} {
			if _, err := node.admin.Exec(ctx, sql); err != nil {
				return err
			}
		}
		at, err := databaseURL(c.urls[i], name)
		if err != nil {
			return err
		}
		urls = append(urls, at)
	}
	if err := citusdb.Join(ctx, urls); err != nil {
		return err
	}
	config := c.nodes[0].admin.Config().ConnConfig.Copy()
	config.Database = c.template
	if err := scratchdb.Migrate(ctx, config); err != nil {
		return err
	}
	if err := c.inTemplate(ctx, c.nodes[0], migrations.CitusSQL("public", "")); err != nil {
		return err
	}
	// Nobody may be connected to it, Citus's own processes neither.
	for i := len(c.nodes) - 1; i >= 0; i-- {
		for _, sql := range []string{
			"ALTER DATABASE " + quoted + " ALLOW_CONNECTIONS false IS_TEMPLATE true",
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + c.template + "'",
		} {
			if _, err := c.nodes[i].admin.Exec(ctx, sql); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *citusNodes) inTemplate(ctx context.Context, node *cluster, sql string) error {
	config := node.admin.Config().ConnConfig.Copy()
	config.Database = c.template
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

func (c *citusNodes) create(ctx context.Context, test string) (*Citus, error) {
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	made := &Citus{}
	name := databaseName(test)
	for i, node := range c.nodes {
		at, err := databaseURL(c.urls[i], name)
		if err != nil {
			return nil, err
		}
		made.Nodes = append(made.Nodes, &DB{Name: name, URL: at, cluster: node})
	}
	errs := onAll(made.Nodes, func(db *DB) error { return db.cluster.clone(ctx, db.cluster.admin, name, c.template) })
	if errs != nil {
		return nil, errors.Join(errs, made.drop(ctx))
	}
	return made, nil
}

// drop drops the database everywhere. A two-phase COMMIT that was cut is rolled back: a
// database that has one cannot be dropped.
func (c *Citus) drop(ctx context.Context) error {
	return onAll(c.Nodes, func(db *DB) error {
		if err := citusdb.RollBackPrepared(ctx, db.URL); err != nil {
			return fmt.Errorf("rolling back what is prepared in %s: %w", db.Name, err)
		}
		return db.Drop(ctx)
	})
}

// onAll does something on all nodes at once.
func onAll(nodes []*DB, do func(*DB) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() { errs[i] = do(node) })
	}
	all.Wait()
	return errors.Join(errs...)
}
