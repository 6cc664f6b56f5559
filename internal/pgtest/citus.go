package pgtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

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
	template, err := citusTemplate()
	if err != nil {
		tb.Fatal(err)
	}
	db, err := citusdb.Copy(tb.Context(), citusdb.URLs(), databaseName(tb.Name()), template)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), dropWait)
		defer cancel()
		if err := db.Drop(ctx); err != nil {
			tb.Error(err)
		}
	})
	c := &Citus{}
	for _, url := range db.URLs {
		c.Nodes = append(c.Nodes, &DB{Name: db.Name, URL: url})
	}
	return c
}

// citusTemplate makes the template on every node, once in a process, and returns its name.
var citusTemplate = sync.OnceValues(func() (name string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	if name, err = templateName(migrations.FS); err != nil {
		return "", err
	}
	nodes, distribute := citusdb.URLs(), migrations.CitusSQL("public", "")
	sum := sha256.Sum256([]byte(strings.Join(nodes, " ") + distribute))
	name += fmt.Sprintf("_citus_%x", sum[:4])
	err = scratchdb.Template(ctx, nodes, name, func(urls []string) error {
		if err := citusdb.Join(ctx, urls); err != nil {
			return err
		}
		return scratchdb.On(ctx, urls[0], func(conn *pgx.Conn) error {
			if err := scratchdb.Migrate(ctx, conn.Config()); err != nil {
				return err
			}
			_, err := conn.Exec(ctx, distribute, pgx.QueryExecModeSimpleProtocol)
			return err
		})
	})
	if err != nil {
		return "", fmt.Errorf("making the template on the Citus cluster: %w", err)
	}
	return name, nil
})
