package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoundTicks(t *testing.T) {
	t.Parallel()

	require.Equal(t, []float64{0, 1}, roundTicks(0, 5))
	require.Equal(t, []float64{0, 1}, roundTicks(1, 1))
	require.Equal(t, []float64{0, 0.5, 1, 1.5}, roundTicks(1.4, 5))
	require.Equal(t, []float64{0, 2000, 4000, 6000}, roundTicks(5200, 5))
	require.Equal(t, []float64{0, 10, 20, 30, 40, 50}, roundTicks(50, 5))
}

func TestLogTicks(t *testing.T) {
	t.Parallel()

	require.Equal(t, []float64{0.2, 0.5, 1, 2}, logTicks(0.16, 2.7))
	require.Equal(t, []float64{0.1, 1, 10, 100, 1000}, logTicks(0.1, 2000))
}

func TestScale(t *testing.T) {
	t.Parallel()

	require.Equal(t, 150.0, scale{from: 0, to: 10, start: 100, end: 200}.at(5))
	require.Equal(t, 150.0, scale{from: 1, to: 100, start: 100, end: 200, log: true}.at(10))
	require.Equal(t, 100.0, scale{from: 5, to: 5, start: 100, end: 200}.at(5), "a single value")
}

func TestTickText(t *testing.T) {
	t.Parallel()

	for v, want := range map[float64]string{0: "0", 0.2: "0.2", 2500: "2,500", 1e4: "10k", 5e6: "5M", 2.5e6: "2.5M"} {
		require.Equal(t, want, tickText(v))
	}
}
