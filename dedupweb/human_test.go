package dedupweb

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCount(t *testing.T) {
	t.Parallel()

	for n, text := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 25128: "25,128", 1234567: "1,234,567"} {
		require.Equal(t, text, count(n))
	}
}
