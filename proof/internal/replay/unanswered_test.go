package replay

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		errs func(n int) string
		want int // deliveries until the call is given up; 0 is never
	}{
		"OneError":   {func(int) string { return "no table" }, 5},
		"OtherPorts": {func(n int) string { return fmt.Sprintf("dial :%d", n) }, 5},
		"TwoByTurns": {func(n int) string { return []string{"reset", "closed"}[n%2] }, 0},
		"AtLast":     {func(n int) string { return []string{"reset", "no table"}[min(n/3, 1)] }, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f failures
			for n := 1; n <= 30; n++ {
				cause := errors.New(tt.errs(n - 1))
				err := f.add(cause)
				require.ErrorIs(t, err, cause)
				require.Equal(t, n == tt.want, errors.As(err, &lab.Hopeless{}), "delivery %d", n)
				if n == tt.want {
					break
				}
			}
		})
	}
}
