package migrations_test

import (
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

// provider returns goose with the project's migrations.
func provider(t *testing.T, pool *pgxpool.Pool) *goose.Provider {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithTableName(migrations.VersionTable))
	require.NoError(t, err)
	return p
}

func TestUpDownUp(t *testing.T) {
	t.Parallel()

	pool := pgtest.NewEmpty(t).Pool(t)
	p := provider(t, pool)
	empty := dump(t, pool, "public")
	require.Empty(t, empty.relations)

	applied, err := p.Up(t.Context())
	require.NoError(t, err)
	require.Len(t, applied, len(p.ListSources()))
	require.NoError(t, migrations.Check(t.Context(), pool, nil))
	first := dump(t, pool, "public")
	require.NotEmpty(t, first.comments)

	_, err = p.DownTo(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, empty, dump(t, pool, "public"), "left behind")
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM tool_dedup_version WHERE version_id > 0`).Scan(&left))
	require.Zero(t, left)
	require.Equal(t, []string{migrations.ProblemTableMissing}, names(problems(t, pool, nil)))

	_, err = p.Up(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, dump(t, pool, "public"))
	require.NoError(t, migrations.Check(t.Context(), pool, nil))
}

// The application's migrations have the same numbers as the library's, and neither disturbs the
// other.
func TestBesideTheApplications(t *testing.T) {
	t.Parallel()

	pool := pgtest.NewEmpty(t).Pool(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	application, err := goose.NewProvider(goose.DialectPostgres, db, fstest.MapFS{
		"00001_orders.sql":  {Data: []byte("-- +goose Up\nCREATE TABLE orders (id int);\n-- +goose Down\nDROP TABLE orders;\n")},
		"00002_payment.sql": {Data: []byte("-- +goose Up\nALTER TABLE orders ADD paid bool;\n-- +goose Down\nALTER TABLE orders DROP paid;\n")},
	})
	require.NoError(t, err)
	ours := provider(t, pool)

	_, err = application.UpByOne(t.Context())
	require.NoError(t, err)
	_, err = ours.Up(t.Context())
	require.NoError(t, err)
	_, err = application.Up(t.Context())
	require.NoError(t, err)
	require.NoError(t, migrations.Check(t.Context(), pool, nil))

	_, err = application.DownTo(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, migrations.Check(t.Context(), pool, nil))
	_, err = application.Up(t.Context())
	require.NoError(t, err)
	_, err = ours.DownTo(t.Context(), 0)
	require.NoError(t, err)
	current, target, err := application.GetVersions(t.Context())
	require.NoError(t, err)
	require.Equal(t, target, current)
}

func TestPlainSQL(t *testing.T) {
	t.Parallel()

	sql, err := migrations.SQL()
	require.NoError(t, err)
	require.NotContains(t, sql, "DROP")
	require.NotContains(t, sql, "+goose")

	plain := pgtest.NewEmpty(t).Pool(t)
	exec(t, plain, sql)
	require.NoError(t, migrations.Check(t.Context(), plain, nil))

	require.Equal(t, dump(t, pgtest.New(t).Pool(t), "public"), dump(t, plain, "public"))
}

func TestOtherSchema(t *testing.T) {
	t.Parallel()

	sql, err := migrations.SQL()
	require.NoError(t, err)
	want := dump(t, pgtest.New(t).Pool(t), "public")

	for _, schema := range []string{"app", `My "own" schema`} {
		opts := &migrations.CheckOptions{Schema: schema}
		quoted := pgx.Identifier{schema}.Sanitize()

		t.Run("Goose/"+schema, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmpty(t)
			pool := db.Pool(t, param("search_path", quoted))
			require.Equal(t, []string{"schema_missing"}, names(problems(t, pool, opts)))
			exec(t, pool, "CREATE SCHEMA "+quoted)
			require.Equal(t, []string{migrations.ProblemTableMissing}, names(problems(t, pool, opts)))

			p := provider(t, pool)
			_, err := p.Up(t.Context())
			require.NoError(t, err)
			require.NoError(t, migrations.Check(t.Context(), db.Pool(t), opts))
			require.Equal(t, []string{migrations.ProblemTableMissing}, names(problems(t, pool, nil)), "in public there is none")

			_, err = p.DownTo(t.Context(), 0)
			require.NoError(t, err)
			require.Empty(t, dump(t, pool, schema).relations)
		})

		t.Run("PlainSQL/"+schema, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t).Pool(t, param("search_path", quoted))
			exec(t, pool, "CREATE SCHEMA "+quoted+";"+sql)
			require.NoError(t, migrations.Check(t.Context(), pool, opts))
			require.NoError(t, migrations.Check(t.Context(), pool, nil), "another one lies in public")

			exec(t, pool, "DROP INDEX tool_dedup_due; ALTER TABLE tool_dedup SET UNLOGGED")
			found := problems(t, pool, opts)
			require.Equal(t, []string{"due_index_missing", "unlogged"}, names(found))
			exec(t, pool, "SET search_path = public;"+found[0].Fix[len("run: "):]+";"+found[1].Fix[len("run: "):])
			require.NoError(t, migrations.Check(t.Context(), pool, opts), "fixes name the schema")

			got := dump(t, pool, schema)
			require.Equal(t, want.columns, got.columns)
			require.Equal(t, want.constraints, got.constraints)
			require.Equal(t, want.comments, got.comments)
		})
	}
}
