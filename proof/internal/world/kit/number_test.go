package kit

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumberString(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"375": "375", "-3": "-3", "0": "0", "375.0": "375.0", "12.50": "12.5",
		"0.1": "0.1", "1e2": "100.0", "1e16": "1e+16", "0.00001": "1e-05",
		"-0.0": "-0.0", "20000000000000000": "20000000000000000",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			var number Number
			require.NoError(t, json.Unmarshal([]byte(text), &number))
			require.Equal(t, want, number.String())
		})
	}
	t.Run("Plus", func(t *testing.T) {
		t.Parallel()
		sum := Number{Value: 1}.Plus(Number{Value: 2, Fraction: true})
		require.Equal(t, "3.0", sum.String())
	})
	t.Run("NoNumber", func(t *testing.T) {
		t.Parallel()
		var number Number
		require.Error(t, json.Unmarshal([]byte(`"5"`), &number))
	})
}

func TestRound2(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ x, want float64 }{
		{2.675, 2.67}, // a little less in binary
		{1.005, 1},
		{0.125, 0.12}, // exact halves go to the even digit
		{0.375, 0.38},
		{-0.125, -0.12},
		{0.20999999999999375, 0.21},
		{-46.0600000001, -46.06},
		{86, 86},
		{math.Inf(1), math.Inf(1)},
	} {
		require.Equal(t, tt.want, Round2(tt.x), "%v", tt.x)
	}
}
