package measure_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

func TestRoundsInterleaveAndRotate(t *testing.T) {
	t.Parallel()

	var order [][2]int
	err := measure.Rounds(4, 3, func(round, cell int) error {
		order = append(order, [2]int{round, cell})
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, [][2]int{
		{0, 0}, {0, 1}, {0, 2},
		{1, 1}, {1, 2}, {1, 0},
		{2, 2}, {2, 0}, {2, 1},
		{3, 0}, {3, 1}, {3, 2},
	}, order)
}

func TestRoundsEndWithAnError(t *testing.T) {
	t.Parallel()

	broken, runs := errors.New("broken"), 0
	err := measure.Rounds(4, 3, func(int, int) error { runs++; return broken })
	require.ErrorIs(t, err, broken)
	require.Equal(t, 1, runs)
}
