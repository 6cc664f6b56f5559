package dedup_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestPoolAndOptions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	d, err := dedup.New(pool, &dedup.Options{Retention: dedup.Retention{Result: 7 * 24 * time.Hour}})
	require.NoError(t, err)
	require.Same(t, pool, d.Pool())
	opts := d.Options()
	require.Equal(t, "public", opts.Schema, "with the defaults filled in")
	require.Equal(t, dedup.Retention{Result: 7 * 24 * time.Hour, Tombstone: 30 * 24 * time.Hour}, opts.Retention)
	opts.Schema = "other"
	require.Equal(t, "public", d.Options().Schema, "a copy")
}

// exampleDatabase returns a pool to a database of an example's own, which has the tool_dedup table
// and what setup creates. done closes and drops it.
var exampleDatabase = pgtest.Example

// exampleTimePasses makes every record older, as if the time given had passed.
func exampleTimePasses(pool *pgxpool.Pool, interval string) {
	_, err := pool.Exec(context.Background(), `
		UPDATE tool_dedup
		SET created_at = created_at - $1::text::interval,
		    expires_at = expires_at - $1::text::interval,
		    forget_at = forget_at - $1::text::interval`, interval)
	exampleMust(err)
}

// exampleCount returns the number of rows of a table.
func exampleCount(pool *pgxpool.Pool, table string) (n int) {
	exampleMust(pool.QueryRow(context.Background(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func exampleMust(err error) {
	if err != nil {
		panic(err)
	}
}
