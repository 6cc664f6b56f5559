package figure_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

func TestText(t *testing.T) {
	t.Parallel()

	for v, want := range map[float64]string{0: "0.00", 0.1634: "0.16", 2.7: "2.70", 12.34: "12.3", 108.4: "108", 1234567: "1,234,567", -1234: "-1,234"} {
		require.Equal(t, want, figure.Text(v))
	}
}

func TestMillis(t *testing.T) {
	t.Parallel()

	require.Equal(t, "0.28", figure.Millis(280*time.Microsecond))
	require.Equal(t, "15.0", figure.Millis(15*time.Millisecond))
	require.Equal(t, "150", figure.Millis(150*time.Millisecond))
}

func TestThousands(t *testing.T) {
	t.Parallel()

	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -999: "-999", -1234567: "-1,234,567"} {
		require.Equal(t, want, figure.Thousands(n))
	}
}
