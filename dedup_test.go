package dedup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestDo(t *testing.T) {
	t.Parallel()

	t.Run("FirstThenReplay", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, nil)

		first, err := dedup.Do(ctx, b.d, call("k"), effect("k"))
		require.NoError(t, err)
		require.False(t, first.Replayed)
		require.Equal(t, ticket{ID: 7, Title: "k"}, first.Value)
		require.Equal(t, 1, first.Attempts)

		again, err := dedup.Do(ctx, b.d, call("k"), effect("k"))
		require.NoError(t, err)
		require.True(t, again.Replayed)
		require.Equal(t, first.Value, again.Value)
		require.True(t, first.CreatedAt.Equal(again.CreatedAt))
		require.Equal(t, 1, b.effects(t, "k"))
		require.Equal(t, 1, b.records(t))
	})
}

func TestPoolAndOptions(t *testing.T) {
	t.Parallel()
	_, b := setup(t, nil)
	d, err := dedup.New(b.pool, &dedup.Options{Retention: dedup.BatchRetention()})
	require.NoError(t, err)
	require.Same(t, b.pool, d.Pool())
	opts := d.Options()
	require.Equal(t, "public", opts.Schema, "with the defaults filled in")
	require.Equal(t, dedup.BatchRetention().Or(dedup.Retention{}), opts.Retention)
	opts.Schema = "other"
	require.Equal(t, "public", d.Options().Schema, "a copy")
}
