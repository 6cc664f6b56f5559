package migrate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

func TestPrintCitus(t *testing.T) {
	t.Parallel()

	want := migrations.CitusSQL("o'clock", "bookings")
	require.Equal(t, outcome{exit.OK, want, ""}, run(t.Context(), "print", "--citus", "--schema", "o'clock", "--colocate-with", "bookings"), "needs no database")
	require.Contains(t, want, `create_distributed_table('"o''clock"."tool_dedup"', 'scope', colocate_with => 'bookings')`)
	require.Contains(t, migrations.CitusSQL("public", ""), `'scope', colocate_with => 'none')`)
}

func TestUpCitusWithoutCitus(t *testing.T) {
	t.Parallel()

	b := setup(t)
	got := b.migrate(t, "up", "--citus")
	require.Equal(t, exit.Failed, got.code)
	require.Contains(t, got.errOut, "which must have Citus")
	require.NoError(t, migrations.Check(t.Context(), b.pool, nil), "the migrations are applied")
}

// On a cluster: placed once, beside the application's table.
func TestCitusUp(t *testing.T) {
	t.Parallel()

	db := pgtest.NewCitus(t).Coordinator()
	b := &bundle{db: db, pool: db.Pool(t)}
	b.exec(t, `CREATE TABLE bookings (tenant text COLLATE "C")`)
	b.exec(t, `SELECT create_distributed_table('bookings', 'tenant', colocate_with => 'none')`)
	for _, table := range []string{"tool_effect", "tool_dedup"} {
		b.exec(t, `SELECT undistribute_table('`+table+`')`)
	}
	require.Contains(t, b.fails(t, "check"), "citus_not_distributed")
	for range 2 {
		require.Contains(t, b.fine(t, "up", "--citus", "--colocate-with", "bookings"), "the tables are distributed\n")
		b.fine(t, "check")
	}
	var groups int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(DISTINCT colocationid) FROM pg_dist_partition
		WHERE logicalrelid IN ('bookings'::regclass, 'tool_dedup'::regclass, 'tool_effect'::regclass)`).Scan(&groups))
	require.Equal(t, 1, groups)
}
