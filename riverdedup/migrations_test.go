package riverdedup_test

import (
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

// TestMigrationsBesideRivers applies and reverts each library's migrations with the other's in
// place.
func TestMigrationsBesideRivers(t *testing.T) {
	t.Parallel()
	for _, riverFirst := range []bool{true, false} {
		pool := pgtest.NewEmpty(t).Pool(t)
		ours := ourMigrations(t, pool)
		if riverFirst {
			require.NoError(t, migrateRiver(t.Context(), pool))
		}
		_, err := ours.Up(t.Context())
		require.NoError(t, err)
		require.NoError(t, migrateRiver(t.Context(), pool))
		require.NoError(t, migrations.Check(t.Context(), pool, nil))

		rivers, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		result, err := rivers.Validate(t.Context(), nil)
		require.NoError(t, err)
		require.True(t, result.OK, result.Messages)
		if riverFirst {
			_, err = rivers.Migrate(t.Context(), rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{TargetVersion: -1})
			require.NoError(t, err)
			require.NoError(t, migrations.Check(t.Context(), pool, nil))
			continue
		}
		_, err = ours.DownTo(t.Context(), 0)
		require.NoError(t, err)
		result, err = rivers.Validate(t.Context(), nil)
		require.NoError(t, err)
		require.True(t, result.OK, result.Messages)
	}
}

func ourMigrations(t *testing.T, pool *pgxpool.Pool) *goose.Provider {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithTableName(migrations.VersionTable))
	require.NoError(t, err)
	return p
}
