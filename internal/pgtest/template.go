package pgtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/scratchdb"
	"github.com/tooldedup/dedup/migrations"
)

// A template is a database with the migrations that test databases are copied
// from. Its name tells its migrations, so that processes of different revisions
// can share a server.
type template struct {
	once sync.Once
	name string
	err  error
}

// ensure returns the template's name, and makes the template if it is not there.
func (t *template) ensure(ctx context.Context, server string) (string, error) {
	t.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
		defer cancel()
		if t.name, t.err = templateName(migrations.FS); t.err == nil {
			t.err = makeTemplate(ctx, server, t.name)
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

// makeTemplate makes the template of a server with the migrations.
func makeTemplate(ctx context.Context, server, name string) error {
	return scratchdb.Template(ctx, []string{server}, name, func(urls []string) error {
		config, err := pgx.ParseConfig(urls[0])
		if err != nil {
			return err
		}
		return scratchdb.Migrate(ctx, config)
	})
}
