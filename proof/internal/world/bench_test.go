package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/world"
)

// BenchmarkReset measures a reset of the large world after a session that
// changed three rows.
func BenchmarkReset(b *testing.B) {
	rec, err := recording.Open(largeDir(b))
	require.NoError(b, err)
	pool := pgtest.NewEmpty(b).Pool(b)
	require.NoError(b, world.Create(b.Context(), pool))
	require.NoError(b, world.Load(b.Context(), pool, rec))
	for b.Loop() {
		b.StopTimer()
		_, err := pool.Exec(b.Context(), `
			UPDATE airline_users SET doc = doc WHERE user_id = (SELECT max(user_id) FROM airline_users);
			UPDATE airline_reservations SET doc = doc WHERE reservation_id = (SELECT max(reservation_id) FROM airline_reservations);
			UPDATE retail_orders SET doc = doc WHERE order_id = (SELECT max(order_id) FROM retail_orders)`)
		require.NoError(b, err)
		b.StartTimer()
		require.NoError(b, world.Reset(b.Context(), pool))
	}
}

// BenchmarkLoad measures a world's start: its tables and their data.
func BenchmarkLoad(b *testing.B) {
	rec, err := recording.Open(largeDir(b))
	require.NoError(b, err)
	for b.Loop() {
		b.StopTimer()
		pool := pgtest.NewEmpty(b).Pool(b)
		b.StartTimer()
		require.NoError(b, world.Create(b.Context(), pool))
		require.NoError(b, world.Load(b.Context(), pool, rec))
	}
}
