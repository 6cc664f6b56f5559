package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWaitedFor(t *testing.T) {
	t.Parallel()

	for names, want := range map[string]int{
		"second": 1, "*": 1, "second, third": 1, `"2 (x"`: 1,
		"2 (a, b, c)": 2, "FIRST 3 (a, b, c)": 3, " any 2(a,b)": 2,
	} {
		require.Equal(t, want, waitedFor(names), names)
	}
}
