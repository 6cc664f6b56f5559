package bed

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := startRedis(t.Context(), t.TempDir())
	require.ErrorIs(t, err, ErrNoRedis)
}
