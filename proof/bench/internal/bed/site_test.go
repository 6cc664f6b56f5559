package bed

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// A doubled or missing effect is found.
func TestVerify(t *testing.T) {
	t.Parallel()

	b := start(t, Options{Fast: true, RedisFolder: t.TempDir()})
	s, err := b.Site(t.Context(), way.Named(way.Base))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.Seed(t.Context(), 2))
	require.NoError(t, s.Verify(t.Context()))

	exec := func(sql string) {
		_, err := s.Pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec(`INSERT INTO effects (ref) SELECT ref FROM effects LIMIT 1`)
	require.ErrorContains(t, s.Verify(t.Context()), "2 calls with new keys left 3 effects of 2 keys")
	exec(`DELETE FROM effects WHERE id = 1`)
	exec(`DELETE FROM effects WHERE id = 2`)
	require.ErrorContains(t, s.Verify(t.Context()), "left 1 effects of 1 keys")
}

func TestVia(t *testing.T) {
	t.Parallel()

	require.Equal(t, "postgres://u@127.0.0.1:9/d?a=b", Via("postgres://u@10.0.0.1:5432/d?a=b", "127.0.0.1:9"))
}
