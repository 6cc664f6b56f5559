package run

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// Of all schemas, with indexes, without the effects.
func TestStored(t *testing.T) {
	t.Parallel()

	pool := pgtest.NewEmpty(t).Pool(t)
	_, err := pool.Exec(t.Context(), `
		CREATE SCHEMA s;
		CREATE TABLE s.large (id int PRIMARY KEY);
		INSERT INTO s.large SELECT generate_series(1, 1000);
		CREATE TABLE effects (id int);
		INSERT INTO effects SELECT generate_series(1, 1000);
		CREATE TABLE empty (id int)`)
	require.NoError(t, err)
	bytes, err := stored(t.Context(), []*pgxpool.Pool{pool})
	require.NoError(t, err)
	require.EqualValues(t, (5+5)*8192, bytes)
}
