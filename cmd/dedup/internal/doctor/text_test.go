package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrap(t *testing.T) {
	t.Parallel()

	require.Nil(t, wrap("", 5))
	require.Equal(t, []string{"a bc", "déf", "longer", "g h"}, wrap("a bc déf longer g\n h", 5))
}
