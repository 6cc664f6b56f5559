package pgtest

import (
	"context"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/scratchdb"
	"github.com/tooldedup/dedup/migrations"
)

func TestTemplateName(t *testing.T) {
	t.Parallel()

	name := func(files map[string]string) string {
		fsys := fstest.MapFS{}
		for path, text := range files {
			fsys[path] = &fstest.MapFile{Data: []byte(text)}
		}
		name, err := templateName(fsys)
		require.NoError(t, err)
		require.Regexp(t, `^dedup_template_[0-9a-f]{16}$`, name)
		return name
	}
	base := name(map[string]string{"1.sql": "a", "2.sql": "b"})
	require.Equal(t, base, name(map[string]string{"2.sql": "b", "1.sql": "a", "notes.txt": "c"}))
	require.NotEqual(t, base, name(map[string]string{"1.sql": "a", "2.sql": "c"}), "another text")
	require.NotEqual(t, base, name(map[string]string{"1.sql": "a", "3.sql": "b"}), "another name")
	require.NotEqual(t, base, name(map[string]string{"1.sql": "a"}), "one less")

	_, err := templateName(fstest.MapFS{})
	require.EqualError(t, err, "there are no migrations")
}

// Several test processes that share a server make one template, and none sees
// half of it.
func TestTemplateIsMadeOnce(t *testing.T) {
	t.Parallel()

	admin, err := process.connect()
	require.NoError(t, err)
	name := databaseName("template")
	t.Cleanup(func() { dropTemplate(t, name) })

	// What a process leaves that is killed while it makes the template.
	_, err = admin.Exec(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)

	var makers sync.WaitGroup
	errs := make([]error, adminConns)
	for i := range errs {
		makers.Go(func() {
			errs[i] = makeTemplate(t.Context(), process.url, name)
		})
	}
	makers.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}

	var template, connectable bool
	require.NoError(t, admin.QueryRow(t.Context(), `
		SELECT datistemplate, datallowconn
		FROM pg_database
		WHERE datname = $1`, name).Scan(&template, &connectable))
	require.True(t, template)
	require.False(t, connectable)

	url, err := scratchdb.URL(process.url, name)
	require.NoError(t, err)
	_, err = pgx.Connect(t.Context(), url)
	require.ErrorContains(t, err, "not currently accepting connections")

	db := &DB{Name: databaseName(t.Name()), cluster: process}
	db.URL, err = scratchdb.URL(process.url, db.Name)
	require.NoError(t, err)
	require.NoError(t, process.clone(t.Context(), admin, db.Name, name))
	t.Cleanup(func() { db.cleanup(t) })
	require.True(t, migrated(t, db))
}

func TestTemplateRecordsItsMigrations(t *testing.T) {
	t.Parallel()

	files, err := migrations.FS.ReadDir(".")
	require.NoError(t, err)
	var applied int
	err = New(t).Pool(t).QueryRow(t.Context(), `
		SELECT count(*)
		FROM `+migrations.VersionTable+`
		WHERE version_id > 0 AND is_applied`).Scan(&applied)
	require.NoError(t, err)
	require.Equal(t, len(files), applied)
}

// dropTemplate drops a template that a test has made.
func dropTemplate(t *testing.T, name string) {
	t.Helper()
	admin, err := process.connect()
	require.NoError(t, err)
	for _, statement := range []string{
		"ALTER DATABASE " + name + " IS_TEMPLATE false",
		"DROP DATABASE " + name,
	} {
		_, err := admin.Exec(context.Background(), statement)
		require.NoError(t, err)
	}
}
