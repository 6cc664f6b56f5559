package size_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/size"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestRelations(t *testing.T) {
	t.Parallel()

	pool := pgtest.NewEmpty(t).Pool(t)
	_, err := pool.Exec(t.Context(), `
		CREATE SCHEMA s;
		CREATE TABLE s.large (id int PRIMARY KEY);
		INSERT INTO s.large SELECT generate_series(1, 1000);
		CREATE TABLE empty (id int)`)
	require.NoError(t, err)
	all, err := size.Relations(t.Context(), pool)
	require.NoError(t, err)
	require.ElementsMatch(t, []size.Relation{
		{Schema: "s", Name: "large", Bytes: 5 * 8192},
		{Schema: "s", Name: "large_pkey", Bytes: 5 * 8192},
		{Schema: "public", Name: "empty", Bytes: 0},
	}, all)
}
