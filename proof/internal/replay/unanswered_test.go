package replay

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnanswered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		errs func(n int) string
		want int // deliveries until the call is given up
		says string
	}{
		"OneError":   {func(int) string { return "no table" }, 5, "no table"},
		"OtherPorts": {func(n int) string { return fmt.Sprintf("dial :%d", n) }, 5, "dial :4"},
		"TwoByTurns": {func(n int) string { return []string{"reset", "closed"}[n%2] }, 25, "no answer after 25 deliveries"},
		"AtLast":     {func(n int) string { return []string{"reset", "no table"}[min(n/3, 1)] }, 8, "no table"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var u unanswered
			for n := range tt.want {
				cause := errors.New(tt.errs(n))
				err := u.add(cause)
				if n < tt.want-1 {
					require.NoError(t, err, "delivery %d", n+1)
					continue
				}
				require.ErrorIs(t, err, cause)
				require.ErrorContains(t, err, tt.says)
			}
		})
	}
}
