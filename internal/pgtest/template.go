package pgtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/scratchdb"
	"github.com/tooldedup/dedup/migrations"
)

// templateLock is the advisory lock under which a template is made. Advisory
// locks belong to a database: all processes take it in the one that the server's
// URL names. The nodes of a cluster join each other under it too.
const templateLock = citusdb.JoinLock

// A template is a database with the migrations that test databases are copied
// from. Its name tells its migrations, so that processes of different revisions
// can share a server. Once complete it is marked as a template that nobody may
// connect to: CREATE DATABASE fails while someone is connected to its source.
type template struct {
	once sync.Once
	name string
	err  error
}

// ensure returns the template's name, and makes the template if it is not there.
func (t *template) ensure(ctx context.Context, admin *pgxpool.Pool) (string, error) {
	t.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
		defer cancel()
		if t.name, t.err = templateName(migrations.FS); t.err == nil {
			t.err = admin.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
				return makeTemplate(ctx, conn.Conn(), t.name, buildTemplate)
			})
		}
		if t.err != nil {
			t.err = fmt.Errorf("making the template: %w", t.err)
		}
	})
	return t.name, t.err
}

// templateName tells the migrations by a hash of their names and texts.
func templateName(files fs.FS) (string, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", errors.New("there are no migrations")
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%q", migrations.VersionTable)
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", fmt.Errorf("reading migration: %w", err)
		}
		fmt.Fprintf(hash, "%q %q", name, text)
	}
	return fmt.Sprintf("dedup_template_%x", hash.Sum(nil)[:8]), nil
}

// makeTemplate has build make the template unless it is complete. Half of one, left by a
// process that was killed, is thrown away.
func makeTemplate(ctx context.Context, conn *pgx.Conn, name string, build func(context.Context, *pgx.Conn, string) error) error {
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return fmt.Errorf("waiting for the lock: %w", err)
	}
	defer func() {
		_, err := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(templateLock))
		if err != nil {
			_ = conn.Close(context.WithoutCancel(ctx)) // which unlocks, too
		}
	}()

	var complete bool
	err := conn.QueryRow(ctx, `
		SELECT datistemplate
		FROM pg_database
		WHERE datname = $1`, name).Scan(&complete)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("looking for the template: %w", err)
	}
	if complete {
		return nil
	}
	return build(ctx, conn, name)
}

// buildTemplate creates the database, migrates it, and marks it as complete.
func buildTemplate(ctx context.Context, conn *pgx.Conn, name string) error {
	quoted := pgx.Identifier{name}.Sanitize()
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + quoted + " WITH (FORCE)",
		"CREATE DATABASE " + quoted + " TEMPLATE template0",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("creating the database: %w", err)
		}
	}

	config := conn.Config()
	config.Database = name
	if err := scratchdb.Migrate(ctx, config); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+quoted+" ALLOW_CONNECTIONS false IS_TEMPLATE true"); err != nil {
		return fmt.Errorf("marking the template as complete: %w", err)
	}
	return nil
}
