package pgtest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/scratchdb"
)

// dropWait bounds dropping a database. It is long: on a busy server, and on the nodes of a Citus
// cluster, a DROP DATABASE waits for checkpoints and for other sessions.
const dropWait = 10 * time.Minute

// A DB is a database of a test.
type DB struct {
	Name string // begins with "dedup_test_"
	URL  string // connects to it as its owner

	cluster *cluster
}

// New returns a new database with the project's migrations. When the test ends, the database and
// its connections are dropped; see the package's comment for failed tests. Without a server New
// fails the test.
func New(tb testing.TB) *DB {
	tb.Helper()
	return process.new(tb, true)
}

// NewEmpty is [New] without the migrations.
func NewEmpty(tb testing.TB) *DB {
	tb.Helper()
	return process.new(tb, false)
}

// Create is [New] for an Example, which has no testing.TB. The caller drops the database with
// [DB.Drop]. Cancelling ctx ends the creation, but not the start of the server.
func Create(ctx context.Context) (*DB, error) {
	return process.create(ctx, "example", true)
}

// Drop drops the database, together with any connections to it. Dropping it again
// does nothing.
func (db *DB) Drop(ctx context.Context) error {
	admin, err := db.cluster.connect()
	if err != nil {
		return err
	}
	if err := db.disconnect(ctx, admin); err != nil {
		return fmt.Errorf("ending the connections to database %s: %w", db.Name, err)
	}
	err = db.cluster.execAlone(ctx, admin, "DROP DATABASE IF EXISTS "+pgx.Identifier{db.Name}.Sanitize()+" WITH (FORCE)")
	if err != nil {
		return fmt.Errorf("dropping database %s: %w", db.Name, err)
	}
	return nil
}

// disconnect ends the connections to the database and waits a moment until they are gone. A
// DROP DATABASE that finds one sleeps for a tenth of a second, and all tests wait for it.
func (db *DB) disconnect(ctx context.Context, admin *pgxpool.Pool) error {
	for pause := time.Millisecond; pause < time.Second; pause *= 2 {
		var left int
		err := admin.QueryRow(ctx, `
			SELECT count(pg_terminate_backend(pid))
			FROM pg_stat_activity
			WHERE datname = $1 AND backend_type = 'client backend'`, db.Name).Scan(&left)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return nil
}

func (c *cluster) new(tb testing.TB, migrated bool) *DB {
	tb.Helper()
	db, err := c.create(tb.Context(), tb.Name(), migrated)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.cleanup(tb) })
	return db
}

// create makes a database for the test with the given name.
func (c *cluster) create(ctx context.Context, test string, migrated bool) (*DB, error) {
	admin, err := c.connect()
	if err != nil {
		return nil, err
	}
	source := "template0"
	if migrated {
		if source, err = c.template.ensure(ctx, c.url); err != nil {
			return nil, err
		}
	}
	db := &DB{Name: databaseName(test), cluster: c}
	if db.URL, err = scratchdb.URL(c.url, db.Name); err != nil {
		return nil, err
	}
	if err := c.clone(ctx, admin, db.Name, source); err != nil {
		return nil, err
	}
	return db, nil
}

// cleanup drops the database at the end of its test, or says where it is.
func (db *DB) cleanup(tb testing.TB) {
	tb.Helper()
	if tb.Failed() && db.cluster.outlives() {
		tb.Logf("pgtest: the test's database is kept: psql '%s'", db.URL)
		return
	}
	if tb.Failed() {
		tb.Logf("pgtest: the test's database %s is gone with its server; to keep it, set DEDUP_DATABASE_URL to a server that stays", db.Name)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), dropWait)
	defer cancel()
	if err := db.Drop(ctx); err != nil {
		tb.Error(err)
	}
}

// databaseName returns a name that no other database has, with as much of the
// test's own name as fits into PostgreSQL's 63 bytes.
func databaseName(test string) string {
	const longest = 63
	words := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(test), "_")
	name := scratchdb.Name("dedup_test_") + "_" + words
	return strings.TrimRight(name[:min(len(name), longest)], "_")
}
