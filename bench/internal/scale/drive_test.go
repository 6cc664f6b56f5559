package scale

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDriveMakesTheCalls(t *testing.T) {
	t.Parallel()

	var made atomic.Int64
	latency, err := drive(t.Context(), 4, 1001, func(context.Context) error { made.Add(1); return nil })
	require.NoError(t, err)
	require.EqualValues(t, 1001, made.Load())
	require.Equal(t, 1001, latency.Calls)

	_, err = drive(t.Context(), 2, 10, func(context.Context) error { return errCall })
	require.ErrorIs(t, err, errCall)
}

func TestRatio(t *testing.T) {
	t.Parallel()

	require.Equal(t, 1.5, ratio(int64(3), int64(2)))
	require.Zero(t, ratio(3.0, 0.0))
}
