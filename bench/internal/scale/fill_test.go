package scale

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/server"
)

func TestKeysHaveTheFormOfNewKey(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const timed = `^ts1_[0-9a-v]{9}_[0-9A-Za-z_-]{22}$`
	require.Regexp(t, timed, OrderedKeys.newKey(at))
	require.Regexp(t, timed, dedup.NewKey())
	require.Regexp(t, `^[0-9A-Za-z_-]{22}$`, RandomKeys.newKey(at))
	require.Less(t, OrderedKeys.newKey(at), OrderedKeys.newKey(at.Add(time.Millisecond)))
	require.Less(t, OrderedKeys.newKey(time.Now().Add(-time.Hour)), dedup.NewKey())
}

// A filled table stands for one that calls have filled: same rows, same sizes,
// and the library replays them.
func TestFilledRecordsAreTheLibrarysOwn(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), t.Context()
	pool, err := server.Pool(ctx, s.url, 2)
	require.NoError(t, err)
	defer pool.Close()
	tl, err := newField(ctx, pool, dedup.Options{Schema: "f", Retention: dedup.TaskRetention()})
	require.NoError(t, err)

	retention := dedup.Retention{Result: 24 * time.Hour, Tombstone: 30 * 24 * time.Hour}
	f := filling{keys: RandomKeys, records: 2500, from: 20 * time.Hour, to: time.Hour, retention: retention}
	require.NoError(t, f.into(ctx, tl))
	sizes, err := tl.sizes(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2500, sizes.Records, "the specimen was rolled back")
	require.Equal(t, sizes.Total, sizes.Heap+sizes.PrimaryKey+sizes.DueIndex)

	var key string
	var due, ages int
	require.NoError(t, pool.QueryRow(ctx, `
		SELECT min(key), count(*) FILTER (WHERE expires_at <= now()), count(DISTINCT created_at)
		  FROM f.tool_dedup`).Scan(&key, &due, &ages))
	require.Zero(t, due)
	require.Equal(t, 2500, ages, "created one after the other")

	result, err := tl.call(ctx, key)
	require.NoError(t, err)
	require.True(t, result.Replayed)
	require.Equal(t, ticket{ID: 1234, Title: title}, result.Value)
	require.Equal(t, 24*time.Hour, result.ExpiresAt.Sub(result.CreatedAt))

	// A call of the library's own, with a reference of as many digits.
	_, err = pool.Exec(ctx, "ALTER TABLE f.effects ALTER COLUMN id RESTART WITH 5678")
	require.NoError(t, err)
	fresh, err := tl.call(ctx, RandomKeys.newKey(time.Now()))
	require.NoError(t, err)
	require.False(t, fresh.Replayed)
	rows, err := pool.Query(ctx, `
		SELECT DISTINCT pg_column_size(t.*) FROM f.tool_dedup t`)
	require.NoError(t, err)
	var widths []int
	for rows.Next() {
		var width int
		require.NoError(t, rows.Scan(&width))
		widths = append(widths, width)
	}
	require.NoError(t, rows.Err())
	require.Len(t, widths, 1, "all rows are equally wide: %v", widths)
}

func TestChunksAreSortedAndSpread(t *testing.T) {
	t.Parallel()

	now := time.Now()
	f := filling{keys: RandomKeys, records: 100, from: 100 * time.Second, to: 0}
	chunk := f.chunk(now, 50, 100)
	require.Len(t, chunk, 50)
	require.True(t, slices.IsSortedFunc(chunk, func(a, b keyed) int {
		if a.key < b.key {
			return -1
		}
		return 1
	}))
	for _, one := range chunk {
		require.WithinRange(t, one.born, now.Add(-50*time.Second-time.Millisecond), now)
	}
}
